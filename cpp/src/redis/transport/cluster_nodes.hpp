// The nodes of a Redis Cluster, and which of them serves which slot.
#pragma once

#include <atomic>
#include <chrono>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "redis/protocol/addresses.hpp"
#include "redis/protocol/cluster_slots.hpp"
#include "redis/transport/node.hpp"
#include "redis/transport/synchronization.hpp"
#include "redis/transport/waiting.hpp"

namespace overlimit::redis::transport {

struct ClusterNode {
  ClusterNode(HostPort where, const Endpoint& like)
      : address(std::move(where)), node(node_of(endpoint_at(address, like))) {}

  const HostPort address;
  const std::shared_ptr<Node> node;
  std::atomic<bool> is_suspect{false};  ///< it did not answer the last command
};

/// Asks the nodes for the slot map when no node is known for a slot, when the node of a slot is suspect, and
/// after redirections; one thread at a time and not too often. A node may be behind the others or know only
/// some slots: then the next nodes are asked too, and slots that none of them assigns stay as they were.
/// Thread-safe; no lock is held during a wait.
class ClusterNodes {
 public:
  using Pointer = std::shared_ptr<ClusterNode>;

  explicit ClusterNodes(ClusterLocation location) : location_(std::move(location)) {}

  /// The node that serves the slot. While none is known, the nodes are asked again until the deadline, unless
  /// none of them answers. Then it throws the reason, or StoreUnavailable; nothing of the call was sent.
  /// Throws as check_interrupted() does.
  [[nodiscard]] Pointer owner(protocol::Slot slot, const Wait& wait);
  /// All nodes that serve slots, after asking for slots without a known node as owner() does.
  [[nodiscard]] std::vector<Pointer> masters(const Wait& wait);
  [[nodiscard]] Pointer at(const HostPort& address);

  /// Notes that a slot has moved, as a node said.
  void learn(const protocol::Redirection& moved);
  /// Asks for the slot map again, if that is due: one node after the other, each for half of the remaining
  /// time, until the node of the slot is known (none: of every slot).
  void refresh(std::optional<protocol::Slot> slot, const Wait& wait);
  /// Throws StoreUnavailable if there is a slot without a known node.
  void require_all_served();

  void close();
  /// The worst state among the nodes.
  [[nodiscard]] protocol::Breaker::State breaker();

 private:
  [[nodiscard]] Pointer known_owner(protocol::Slot slot);
  [[nodiscard]] Pointer found(const HostPort& address);  // mutex_ held
  /// Whether asking again before the deadline may help; waits a moment if so.
  [[nodiscard]] bool may_learn_more(Backoff& backoff, const Wait& wait);
  [[nodiscard]] bool may_change();
  [[nodiscard]] std::optional<protocol::Slot> first_gap();
  [[noreturn]] void raise_unserved(protocol::Slot slot);

  /// What one refresh has found out.
  struct RefreshResult {
    protocol::SlotMap map;
    std::set<HostPort> suspects;  ///< nodes that did not answer the last command
    std::exception_ptr failure;   ///< why a node did not give its map
    bool is_final = false;        ///< no other node would answer anything else
    bool may_change = false;      ///< a node answered, perhaps too late: it may know more next time
    bool is_mapped = false;       ///< a node gave its map, however little is in it

    void add(const protocol::SlotMap& told);
    [[nodiscard]] bool names(std::optional<protocol::Slot> slot) const;
    [[nodiscard]] bool is_enough_for(std::optional<protocol::Slot> slot) const;
  };

  [[nodiscard]] std::vector<Pointer> servers_to_ask(std::set<HostPort>& suspects);
  void ask(ClusterNode& node, RefreshResult& result, const Wait& wait);
  /// Returns whether the map has changed.
  bool adopt(RefreshResult result);

  /// The pause after a refresh that did not find what it was for.
  static constexpr std::chrono::milliseconds kFirstPause{10};

  const ClusterLocation location_;
  RateLimitedTask refresh_task_{kFirstPause};
  std::size_t first_ = 0;  // which node to ask first; of the thread with the permit

  std::mutex mutex_;
  protocol::SlotMap map_;              // guarded by mutex_
  std::map<HostPort, Pointer> nodes_;  // guarded by mutex_
  std::exception_ptr failure_;         // guarded by mutex_; why the last refresh found no map
  bool is_asked_ = false;              // guarded by mutex_; there has been a refresh
  bool may_change_ = true;             // guarded by mutex_; as of the last refresh
};

}  // namespace overlimit::redis::transport
