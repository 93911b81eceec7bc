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

#include "redis/protocol/redirection.hpp"
#include "redis/protocol/slot_map.hpp"
#include "redis/transport/backoff.hpp"
#include "redis/transport/deadline.hpp"
#include "redis/transport/errand.hpp"
#include "redis/transport/node.hpp"
#include "redis/transport/wait.hpp"

namespace overlimit::redis::transport {

struct ClusterNode {
  ClusterNode(HostPort where, const Endpoint& like)
      : address(std::move(where)), node(node_of(endpoint_at(address, like))) {}

  const HostPort address;
  const std::shared_ptr<Node> node;
  std::atomic<bool> is_doubted{false};  ///< it did not answer when last asked
};

/// Asks the nodes themselves who serves what: when nobody is known to serve a slot, when the node that does
/// is doubted, and when told to; one caller at a time and not too often. A node may be behind the others, or
/// know little yet: then the next ones are asked too, and what the map had before stays where none of them
/// names anybody. Thread-safe; no lock is held while anyone waits.
class ClusterNodes {
 public:
  using Pointer = std::shared_ptr<ClusterNode>;

  explicit ClusterNodes(ClusterSite site) : site_(std::move(site)) {}

  /// Who serves the slot. While nobody is known to, the nodes are asked again until the deadline, unless none
  /// of them answers. Then it throws why that is, or StoreUnavailable; nothing of the call was sent. Throws
  /// as pause() does.
  [[nodiscard]] Pointer owner(protocol::Slot slot, const Deadline& deadline, const Interrupted& interrupted);
  /// All who serve slots, after asking for the slots that nobody is known to serve as owner() does.
  [[nodiscard]] std::vector<Pointer> masters(const Deadline& deadline, const Interrupted& interrupted);
  [[nodiscard]] Pointer at(const HostPort& address);

  /// A node said that a slot has moved.
  void learn(const protocol::Redirection& moved);
  /// Asks for all slots again, if it is the caller's turn: one node after the other, each for half of the
  /// time left, until it is known who serves the slot (none: every slot).
  void refresh(std::optional<protocol::Slot> slot, const Deadline& deadline, const Interrupted& interrupted);
  /// Throws StoreUnavailable if there is a slot that nobody is known to serve.
  void require_all_served();

  void close();
  /// The worst among the nodes.
  [[nodiscard]] protocol::Breaker::State breaker();

 private:
  [[nodiscard]] Pointer known_owner(protocol::Slot slot);
  [[nodiscard]] Pointer found(const HostPort& address);  // mutex_ held
  /// Whether there is time, and hope, to learn more; waits a moment if so.
  [[nodiscard]] bool may_learn_more(Backoff& backoff, const Deadline& deadline,
                                    const Interrupted& interrupted);
  [[nodiscard]] bool may_change();
  [[nodiscard]] std::optional<protocol::Slot> first_gap();
  [[noreturn]] void raise_unserved(protocol::Slot slot);

  /// What one round of questions has brought.
  struct Findings {
    protocol::SlotMap map;
    std::set<HostPort> doubted;  ///< the nodes that did not answer when last asked
    std::exception_ptr failure;  ///< why a node could not say
    bool is_final = false;       ///< no other node would say anything else
    bool may_change = false;     ///< some node has answered, or only too late: it may say more next time
    bool is_mapped = false;      ///< some node has told its map, however little is in it

    void add(const protocol::SlotMap& told);
    [[nodiscard]] bool names(std::optional<protocol::Slot> slot) const;
    [[nodiscard]] bool is_enough_for(std::optional<protocol::Slot> slot) const;
  };

  [[nodiscard]] std::vector<Pointer> who_may_know(std::set<HostPort>& doubted);
  void ask(ClusterNode& node, Findings& findings, const Deadline& deadline, const Interrupted& interrupted);
  /// Whether it says anything new.
  bool adopt(Findings findings);

  /// After a round that did not bring what it was for.
  static constexpr std::chrono::milliseconds kFirstPause{10};

  const ClusterSite site_;
  Errand errand_{kFirstPause};  // to refresh
  std::size_t first_ = 0;       // whom to ask first; of whose turn it is

  std::mutex mutex_;
  protocol::SlotMap map_;              // guarded by mutex_
  std::map<HostPort, Pointer> nodes_;  // guarded by mutex_
  std::exception_ptr failure_;         // guarded by mutex_; why the last round brought no map
  bool is_asked_ = false;              // guarded by mutex_; there has been a round
  bool may_change_ = true;             // guarded by mutex_; as of the last round
};

}  // namespace overlimit::redis::transport
