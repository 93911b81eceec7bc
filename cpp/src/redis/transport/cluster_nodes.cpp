#include "redis/transport/cluster_nodes.hpp"

#include <algorithm>
#include <chrono>
#include <string>

#include "overlimit/errors.hpp"
#include "redis/protocol/failures.hpp"
#include "redis/protocol/request.hpp"
#include "redis/transport/fork_generation.hpp"
#include "redis/transport/pause.hpp"

namespace overlimit::redis::transport {
namespace {

using protocol::Reply;
using protocol::SlotMap;

std::string slots_request() {
  std::string request;
  protocol::append_request(request, {"CLUSTER", "SLOTS"});
  return request;
}

/// The error being handled, as one of a call of which nothing was sent.
std::exception_ptr as_unsent() {
  try {
    throw;
  } catch (const StoreTimeout& timeout) {
    return std::make_exception_ptr(StoreTimeout(timeout.what()));
  } catch (const StoreUnavailable& unavailable) {
    return std::make_exception_ptr(StoreUnavailable(unavailable.what()));
  } catch (...) {
    return std::current_exception();
  }
}

}  // namespace

ClusterNodes::Pointer ClusterNodes::owner(protocol::Slot slot, const Deadline& deadline,
                                          const Interrupted& interrupted) {
  const Pointer known = known_owner(slot);
  if (known && !known->is_doubted.load()) return known;
  refresh(deadline, interrupted);
  await_map(deadline, interrupted);
  if (Pointer owner = known_owner(slot)) return owner;
  throw StoreUnavailable("no node of the redis cluster serves slot " + std::to_string(slot) +
                         "; check the cluster with CLUSTER INFO");
}

ClusterNodes::Pointer ClusterNodes::known_owner(protocol::Slot slot) {
  const std::lock_guard lock(mutex_);
  const HostPort* const master = map_.master_of(slot);
  return master == nullptr ? nullptr : found(*master);
}

std::vector<ClusterNodes::Pointer> ClusterNodes::masters(const Deadline& deadline,
                                                         const Interrupted& interrupted) {
  refresh(deadline, interrupted);
  await_map(deadline, interrupted);
  const std::lock_guard lock(mutex_);
  std::vector<Pointer> masters;
  for (const HostPort& each : map_.masters()) masters.push_back(found(each));
  return masters;
}

ClusterNodes::Pointer ClusterNodes::at(const HostPort& address) {
  const std::lock_guard lock(mutex_);
  return found(address);
}

ClusterNodes::Pointer ClusterNodes::found(const HostPort& address) {
  Pointer& node = nodes_[address];
  if (!node) node = std::make_shared<ClusterNode>(address, site_.server);
  return node;
}

void ClusterNodes::learn(const protocol::Redirection& moved) {
  const std::lock_guard lock(mutex_);
  map_.learn(moved.slot, moved.to);
}

void ClusterNodes::await_map(const Deadline& deadline, const Interrupted& interrupted) {
  while (!is_mapped()) {
    if (deadline.passed())
      throw StoreTimeout("the redis cluster's slots could not be learned within the timeout");
    pause(Errand::kPollInterval, interrupted);
  }
}

bool ClusterNodes::is_mapped() {
  const bool is_being_refreshed = errand_.is_taken();
  const std::lock_guard lock(mutex_);
  if (!map_.servers().empty()) return true;
  if (failure_ && !is_being_refreshed) std::rethrow_exception(failure_);
  return false;
}

void ClusterNodes::refresh(const Deadline& deadline, const Interrupted& interrupted) {
  Errand::Hold errand(errand_);
  if (!errand) return;
  const std::uint64_t generation = fork_generation();
  std::exception_ptr failure;
  for (const Pointer& node : who_may_know()) {
    try {
      if (adopt(asked(*node, deadline.share(2), interrupted))) errand.was_useful();
      return;
    } catch (const StoreError& error) {
      if (generation != fork_generation()) throw;
      failure = as_unsent();
      node->is_doubted.store(true);
      if (error.kind() == StoreError::Kind::config) break;  // they all have the same users
    }
  }
  const std::lock_guard lock(mutex_);
  failure_ = failure;
}

/// Those who are not doubted first, and somebody else first each time: one may be behind.
std::vector<ClusterNodes::Pointer> ClusterNodes::who_may_know() {
  const std::lock_guard lock(mutex_);
  std::vector<HostPort> addresses = map_.servers();
  if (!addresses.empty()) {
    const std::size_t first = first_++ % addresses.size();
    std::ranges::rotate(addresses, addresses.begin() + static_cast<std::ptrdiff_t>(first));
  }
  for (const HostPort& seed : site_.seeds) {
    if (std::ranges::find(addresses, seed) == addresses.end()) addresses.push_back(seed);
  }
  std::vector<Pointer> nodes;
  for (const HostPort& address : addresses) nodes.push_back(found(address));
  std::ranges::stable_partition(nodes, [](const Pointer& node) { return !node->is_doubted.load(); });
  return nodes;
}

SlotMap ClusterNodes::asked(ClusterNode& node, const Deadline& deadline, const Interrupted& interrupted) {
  static const std::string request = slots_request();
  const Reply reply = node.node->call({request}, deadline, interrupted);
  const std::string where = "redis at " + node.node->endpoint().describe();
  if (reply.is_error()) protocol::raise_error_reply(reply.as_text(), node.node->endpoint());
  std::optional<SlotMap> map = SlotMap::read(reply, node.address);
  if (!map) throw StoreUnavailable(where + " answered CLUSTER SLOTS with something else");
  if (map->servers().empty()) {
    throw StoreUnavailable(where + " knows nobody who serves a slot; check the cluster with CLUSTER INFO");
  }
  return *std::move(map);
}

bool ClusterNodes::adopt(const SlotMap& map) {
  const std::lock_guard lock(mutex_);
  const bool is_new = !map.agrees_with(map_);
  map_ = map;
  failure_ = nullptr;
  std::erase_if(nodes_, [&](const auto& each) {
    return std::ranges::find(map_.servers(), each.first) == map_.servers().end();
  });
  return is_new;
}

protocol::Breaker::State ClusterNodes::breaker() {
  using State = protocol::Breaker::State;
  const std::lock_guard lock(mutex_);
  State worst = State::closed;
  for (const auto& [address, node] : nodes_) {
    const State state = node->node->breaker();
    if (state == State::open || worst == State::closed) worst = state;
  }
  return worst;
}

void ClusterNodes::close() {
  const std::lock_guard lock(mutex_);
  for (const auto& [address, node] : nodes_) node->node->close();
}

}  // namespace overlimit::redis::transport
