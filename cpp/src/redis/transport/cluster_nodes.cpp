#include "redis/transport/cluster_nodes.hpp"

#include <algorithm>
#include <string>
#include <string_view>

#include "overlimit/errors.hpp"
#include "overlimit/forks.hpp"
#include "redis/protocol/failures.hpp"
#include "redis/transport/waiting.hpp"

namespace overlimit::redis::transport {
namespace {

using protocol::Reply;
using protocol::SlotMap;

constexpr std::string_view kClusterSlots = "*2\r\n$7\r\nCLUSTER\r\n$5\r\nSLOTS\r\n";

/// The map in a reply. Throws StoreError when there is none.
SlotMap slots_in(const Reply& reply, const ClusterNode& asked) {
  const Endpoint& endpoint = asked.node->endpoint();
  if (reply.is_error()) protocol::raise_error_reply(reply.as_text(), endpoint.describe());
  std::optional<SlotMap> map = SlotMap::read(reply, asked.address);
  if (map) return *std::move(map);
  throw StoreUnavailable("redis at " + endpoint.describe() + " answered CLUSTER SLOTS with something else");
}

/// The error being handled, as that of a call of which nothing was sent.
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

ClusterNodes::Pointer ClusterNodes::owner(protocol::Slot slot, const Wait& wait) {
  Backoff backoff;
  for (;;) {
    Pointer known = known_owner(slot);
    if (known && !known->is_suspect.load()) return known;
    refresh(slot, wait);
    if (Pointer owner = known_owner(slot)) return owner;
    if (!may_learn_more(backoff, wait)) raise_unserved(slot);
  }
}

ClusterNodes::Pointer ClusterNodes::known_owner(protocol::Slot slot) {
  const std::lock_guard lock(mutex_);
  const HostPort* const master = map_.master_of(slot);
  return master == nullptr ? nullptr : found(*master);
}

std::vector<ClusterNodes::Pointer> ClusterNodes::masters(const Wait& wait) {
  Backoff backoff;
  do {
    refresh({}, wait);
  } while (first_gap() && may_learn_more(backoff, wait));
  const std::lock_guard lock(mutex_);
  std::vector<Pointer> masters;
  for (const HostPort& each : map_.masters()) masters.push_back(found(each));
  return masters;
}

std::optional<protocol::Slot> ClusterNodes::first_gap() {
  const std::lock_guard lock(mutex_);
  return map_.first_gap();
}

void ClusterNodes::require_all_served() {
  if (const auto gap = first_gap()) raise_unserved(*gap);
}

ClusterNodes::Pointer ClusterNodes::at(const HostPort& address) {
  const std::lock_guard lock(mutex_);
  return found(address);
}

ClusterNodes::Pointer ClusterNodes::found(const HostPort& address) {
  Pointer& node = nodes_[address];
  if (!node) node = std::make_shared<ClusterNode>(address, location_.server);
  return node;
}

void ClusterNodes::learn(const protocol::Redirection& moved) {
  const std::lock_guard lock(mutex_);
  map_.learn(moved.slot, moved.to);
}

bool ClusterNodes::may_learn_more(Backoff& backoff, const Wait& wait) {
  if (!refresh_task_.is_running()) return may_change() && backoff.pause(wait);
  if (wait.deadline.passed()) return false;
  pause(RateLimitedTask::kPollInterval, wait.interrupted);
  return true;
}

bool ClusterNodes::may_change() {
  const std::lock_guard lock(mutex_);
  return may_change_;
}

void ClusterNodes::raise_unserved(protocol::Slot slot) {
  const std::lock_guard lock(mutex_);
  if (failure_) std::rethrow_exception(failure_);
  if (!is_asked_) {
    throw StoreTimeout("the redis cluster's slots could not be learned within the timeout");
  }
  throw StoreUnavailable("no node of the redis cluster serves slot " + std::to_string(slot) +
                         "; check the cluster with CLUSTER INFO");
}

void ClusterNodes::refresh(std::optional<protocol::Slot> slot, const Wait& wait) {
  if (wait.deadline.passed()) return;
  RateLimitedTask::Permit permit(refresh_task_);
  if (!permit) return;
  RefreshResult result;
  for (const Pointer& node : servers_to_ask(result.suspects)) {
    // The suspects come last. They may hang, and are not needed for the node of the slot.
    if (node->is_suspect.load() && result.names(slot)) break;
    ask(*node, result, wait.share(2));
    if (result.is_final || result.is_enough_for(slot) || wait.deadline.passed()) break;
  }
  const bool is_enough = result.is_enough_for(slot);
  if (adopt(std::move(result)) && is_enough) permit.was_useful();
}

/// The suspects come last. Another node is first each time, since one may be behind.
std::vector<ClusterNodes::Pointer> ClusterNodes::servers_to_ask(std::set<HostPort>& suspects) {
  const std::lock_guard lock(mutex_);
  std::vector<HostPort> addresses = map_.servers();
  if (!addresses.empty()) {
    const std::size_t first = first_++ % addresses.size();
    std::rotate(addresses.begin(), addresses.begin() + static_cast<std::ptrdiff_t>(first), addresses.end());
  }
  for (const HostPort& seed : location_.seeds) {
    if (std::ranges::find(addresses, seed) == addresses.end()) addresses.push_back(seed);
  }
  std::vector<Pointer> nodes;
  for (const HostPort& address : addresses) {
    nodes.push_back(found(address));
    if (nodes.back()->is_suspect.load()) suspects.insert(address);
  }
  std::stable_partition(nodes.begin(), nodes.end(),
                        [&](const Pointer& node) { return !suspects.contains(node->address); });
  return nodes;
}

void ClusterNodes::ask(ClusterNode& node, RefreshResult& result, const Wait& wait) {
  const std::uint64_t generation = fork_generation();
  try {
    const Reply reply = node.node->call({kClusterSlots}, wait);
    if (protocol::classify(reply).is_retryable()) result.may_change = true;
    result.add(slots_in(reply, node));
  } catch (const StoreError& error) {
    if (generation != fork_generation()) throw;
    result.failure = as_unsent();
    result.is_final = error.kind() == StoreError::Kind::config;  // they all have the same users
    if (error.kind() == StoreError::Kind::timeout) result.may_change = true;
    node.is_suspect.store(true);
    result.suspects.insert(node.address);
  }
}

bool ClusterNodes::adopt(RefreshResult result) {
  const std::lock_guard lock(mutex_);
  is_asked_ = true;
  may_change_ = result.may_change;
  failure_ = result.is_mapped ? nullptr : result.failure;
  if (result.map.servers().empty()) return false;
  result.map.complete(map_, {});
  const bool is_new = !result.map.agrees_with(map_);
  map_ = std::move(result.map);
  std::erase_if(nodes_, [&](const auto& each) {
    return std::ranges::find(map_.servers(), each.first) == map_.servers().end();
  });
  return is_new;
}

void ClusterNodes::RefreshResult::add(const SlotMap& told) {
  may_change = true;
  is_mapped = true;
  if (map.servers().empty()) {
    map = told;
  } else {
    map.complete(told, suspects);
  }
}

bool ClusterNodes::RefreshResult::names(std::optional<protocol::Slot> slot) const {
  return slot ? map.master_of(*slot) != nullptr : !map.first_gap();
}

bool ClusterNodes::RefreshResult::is_enough_for(std::optional<protocol::Slot> slot) const {
  return names(slot) && !(slot && suspects.contains(*map.master_of(*slot)));
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
