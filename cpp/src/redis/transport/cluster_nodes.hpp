// The nodes of a Redis Cluster, and which of them serves which slot.
#pragma once

#include <atomic>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "redis/protocol/redirection.hpp"
#include "redis/protocol/slot_map.hpp"
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

/// Asks the nodes themselves who serves what: when nothing is known yet, when the owner of a slot is doubted,
/// and when told to; one caller at a time and not too often. Thread-safe; no lock is held while anyone waits.
class ClusterNodes {
 public:
  using Pointer = std::shared_ptr<ClusterNode>;

  explicit ClusterNodes(ClusterSite site) : site_(std::move(site)) {}

  /// Who serves the slot, as far as known. Throws StoreUnavailable when that is nobody, and why nothing could
  /// be learned; nothing of the call was sent then. Throws as pause() does.
  [[nodiscard]] Pointer owner(protocol::Slot slot, const Deadline& deadline, const Interrupted& interrupted);
  /// All who serve slots.
  [[nodiscard]] std::vector<Pointer> masters(const Deadline& deadline, const Interrupted& interrupted);
  [[nodiscard]] Pointer at(const HostPort& address);

  /// A node said that a slot has moved.
  void learn(const protocol::Redirection& moved);
  /// Asks for all slots again, if it is the caller's turn: each node that may know for half of the time left.
  void refresh(const Deadline& deadline, const Interrupted& interrupted);

  void close();
  /// The worst among the nodes.
  [[nodiscard]] protocol::Breaker::State breaker();

 private:
  [[nodiscard]] Pointer known_owner(protocol::Slot slot);
  [[nodiscard]] Pointer found(const HostPort& address);  // mutex_ held
  void await_map(const Deadline& deadline, const Interrupted& interrupted);
  [[nodiscard]] bool is_mapped();  // throws why not, when nobody is about to change that

  [[nodiscard]] std::vector<Pointer> who_may_know();
  [[nodiscard]] protocol::SlotMap asked(ClusterNode& node, const Deadline& deadline,
                                        const Interrupted& interrupted);
  /// Whether it says anything new.
  bool adopt(const protocol::SlotMap& map);

  const ClusterSite site_;
  Errand errand_;          // to refresh
  std::size_t first_ = 0;  // whom to ask first; of whose turn it is

  std::mutex mutex_;
  protocol::SlotMap map_;              // guarded by mutex_
  std::map<HostPort, Pointer> nodes_;  // guarded by mutex_
  std::exception_ptr failure_;         // guarded by mutex_; why the last refresh failed
};

}  // namespace overlimit::redis::transport
