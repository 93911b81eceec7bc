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

  /// Takes one slot elsewhere.
  void learn(Slot slot, const HostPort& master);

 private:
  using Index = std::uint16_t;
  static constexpr Index kNobody = 0xffff;

  [[nodiscard]] bool add(const Reply& range, const HostPort& asked);
  [[nodiscard]] Index index_of(const HostPort& server);

  std::vector<HostPort> servers_;
  std::array<Index, kSlots> owners_;
};

}  // namespace overlimit::redis::protocol
