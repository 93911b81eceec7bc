// Who serves which slot of a cluster.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "overlimit/redis_site.hpp"
#include "redis/protocol/key_slot.hpp"
#include "redis/protocol/reply.hpp"

namespace overlimit::redis::protocol {

/// A value. Empty at first: nobody serves anything.
class SlotMap {
 public:
  SlotMap() { owners_.fill(kNobody); }

  /// Reads the reply to CLUSTER SLOTS of the node at `asked`. None when it is malformed. A node whose address
  /// nobody knows serves nothing.
  [[nodiscard]] static std::optional<SlotMap> read(const Reply& reply, const HostPort& asked);

  /// Null when nobody serves the slot. Valid until the map changes.
  [[nodiscard]] const HostPort* master_of(Slot slot) const noexcept;
  /// Those with slots, in order.
  [[nodiscard]] std::set<HostPort> masters() const;
  /// Masters and replicas: who may be asked for the map.
  [[nodiscard]] const std::vector<HostPort>& servers() const noexcept { return servers_; }

  /// Whether both know the same master of every slot.
  [[nodiscard]] bool agrees_with(const SlotMap& other) const;

  /// The first slot that nobody serves.
  [[nodiscard]] std::optional<Slot> first_gap() const;

  /// Takes one slot elsewhere.
  void learn(Slot slot, const HostPort& master);
  /// Takes from another map the masters of slots that nobody serves in this one, and those that are not
  /// doubted in the place of those that are.
  void complete(const SlotMap& other, const std::set<HostPort>& doubted);

 private:
  using Index = std::uint16_t;
  static constexpr Index kNobody = 0xffff;

  [[nodiscard]] bool add(const Reply& range, const HostPort& asked);
  [[nodiscard]] Index index_of(const HostPort& server);
  [[nodiscard]] Index better_of(Index mine, const SlotMap& other, Index theirs,
                                const std::set<HostPort>& doubted);

  std::vector<HostPort> servers_;
  std::array<Index, kSlots> owners_;
};

}  // namespace overlimit::redis::protocol
