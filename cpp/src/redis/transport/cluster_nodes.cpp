#include "redis/transport/cluster_nodes.hpp"

#include <algorithm>
#include <chrono>
#include <string>
#include <string_view>

#include "overlimit/errors.hpp"
#include "overlimit/forks.hpp"
#include "redis/protocol/failures.hpp"
#include "redis/transport/pause.hpp"

namespace overlimit::redis::transport {
namespace {

using protocol::Reply;
using protocol::SlotMap;

constexpr std::string_view kSlotsRequest = "*2\r\n$7\r\nCLUSTER\r\n$5\r\nSLOTS\r\n";

/// Throws StoreError when the node cannot say who serves what.
SlotMap slots_in(const Reply& reply, const ClusterNode& asked) {
  const Endpoint& endpoint = asked.node->endpoint();
  if (reply.is_error()) protocol::raise_error_reply(reply.as_text(), endpoint);
  std::optional<SlotMap> map = SlotMap::read(reply, asked.address);
  if (map) return *std::move(map);
  throw StoreUnavailable("redis at " + endpoint.describe() + " answered CLUSTER SLOTS with something else");
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
  Backoff backoff;
  for (;;) {
    const Pointer known = known_owner(slot);
    if (known && !known->is_doubted.load()) return known;
    refresh(slot, deadline, interrupted);
    if (Pointer owner = known_owner(slot)) return owner;
    if (!may_learn_more(backoff, deadline, interrupted)) raise_unserved(slot);
  }
}

ClusterNodes::Pointer ClusterNodes::known_owner(protocol::Slot slot) {
  const std::lock_guard lock(mutex_);
  const HostPort* const master = map_.master_of(slot);
  return master == nullptr ? nullptr : found(*master);
}

std::vector<ClusterNodes::Pointer> ClusterNodes::masters(const Deadline& deadline,
                                                         const Interrupted& interrupted) {
  Backoff backoff;
  do {
    refresh({}, deadline, interrupted);
  } while (first_gap() && may_learn_more(backoff, deadline, interrupted));
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
  if (!node) node = std::make_shared<ClusterNode>(address, site_.server);
  return node;
}

void ClusterNodes::learn(const protocol::Redirection& moved) {
  const std::lock_guard lock(mutex_);
  map_.learn(moved.slot, moved.to);
}

bool ClusterNodes::may_learn_more(Backoff& backoff, const Deadline& deadline,
                                  const Interrupted& interrupted) {
  if (!errand_.is_taken()) return may_change() && backoff.pause(deadline, interrupted);
  if (deadline.passed()) return false;
  pause(Errand::kPollInterval, interrupted);
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

void ClusterNodes::refresh(std::optional<protocol::Slot> slot, const Deadline& deadline,
                           const Interrupted& interrupted) {
  if (deadline.passed()) return;
  Errand::Hold errand(errand_);
  if (!errand) return;
  Findings findings;
  for (const Pointer& node : who_may_know(findings.doubted)) {
    // These come last. They may hang, and are not needed to find the owner of the slot.
    if (node->is_doubted.load() && findings.names(slot)) break;
    ask(*node, findings, deadline.share(2), interrupted);
    if (findings.is_final || findings.is_enough_for(slot) || deadline.passed()) break;
  }
  const bool is_enough = findings.is_enough_for(slot);
  if (adopt(std::move(findings)) && is_enough) errand.was_useful();
}

/// Those who are not doubted first, then those who are; and somebody else first each time: one may be behind.
std::vector<ClusterNodes::Pointer> ClusterNodes::who_may_know(std::set<HostPort>& doubted) {
  const std::lock_guard lock(mutex_);
  std::vector<HostPort> addresses = map_.servers();
  if (!addresses.empty()) {
    const std::size_t first = first_++ % addresses.size();
    std::rotate(addresses.begin(), addresses.begin() + static_cast<std::ptrdiff_t>(first), addresses.end());
  }
  for (const HostPort& seed : site_.seeds) {
    if (std::ranges::find(addresses, seed) == addresses.end()) addresses.push_back(seed);
  }
  std::vector<Pointer> nodes;
  for (const HostPort& address : addresses) {
    nodes.push_back(found(address));
    if (nodes.back()->is_doubted.load()) doubted.insert(address);
  }
  std::stable_partition(nodes.begin(), nodes.end(),
                        [&](const Pointer& node) { return !doubted.contains(node->address); });
  return nodes;
}

void ClusterNodes::ask(ClusterNode& node, Findings& findings, const Deadline& deadline,
                       const Interrupted& interrupted) {
  const std::uint64_t generation = fork_generation();
  try {
    const Reply reply = node.node->call({kSlotsRequest}, deadline, interrupted);
    if (protocol::is_worth_retrying(reply)) findings.may_change = true;
    findings.add(slots_in(reply, node));
  } catch (const StoreError& error) {
    if (generation != fork_generation()) throw;
    findings.failure = as_unsent();
    findings.is_final = error.kind() == StoreError::Kind::config;  // they all have the same users
    if (error.kind() == StoreError::Kind::timeout) findings.may_change = true;
    node.is_doubted.store(true);
    findings.doubted.insert(node.address);
  }
}

bool ClusterNodes::adopt(Findings findings) {
  const std::lock_guard lock(mutex_);
  is_asked_ = true;
  may_change_ = findings.may_change;
  failure_ = findings.is_mapped ? nullptr : findings.failure;
  if (findings.map.servers().empty()) return false;
  findings.map.complete(map_, {});
  const bool is_new = !findings.map.agrees_with(map_);
  map_ = std::move(findings.map);
  std::erase_if(nodes_, [&](const auto& each) {
    return std::ranges::find(map_.servers(), each.first) == map_.servers().end();
  });
  return is_new;
}

void ClusterNodes::Findings::add(const SlotMap& told) {
  may_change = true;
  is_mapped = true;
  if (map.servers().empty()) {
    map = told;
  } else {
    map.complete(told, doubted);
  }
}

bool ClusterNodes::Findings::names(std::optional<protocol::Slot> slot) const {
  return slot ? map.master_of(*slot) != nullptr : !map.first_gap();
}

bool ClusterNodes::Findings::is_enough_for(std::optional<protocol::Slot> slot) const {
  return names(slot) && !(slot && doubted.contains(*map.master_of(*slot)));
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
