// The hash slots of a Redis Cluster: that of a key, and which server serves which.
#pragma once

#include <array>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "overlimit/redis_location.hpp"
#include "redis/protocol/reply.hpp"

namespace overlimit::redis::protocol {

using Slot = std::uint16_t;

inline constexpr std::size_t kSlots = 16384;

/// CRC16 (XMODEM) of the key modulo kSlots; of what stands between the first '{' and the next '}', if there
/// is anything. Source: the Redis Cluster specification, "Key distribution model" and "Hash tags".
[[nodiscard]] Slot key_slot(std::string_view key) noexcept;

/// Which server is the master of each slot. A value; at first no slot has a master.
class SlotMap {
 public:
  SlotMap() { owners_.fill(kNoServer); }

  /// Reads the reply to CLUSTER SLOTS of the node at `asked`. None when it is malformed. A node without a
  /// known address is left out.
  [[nodiscard]] static std::optional<SlotMap> read(const Reply& reply, const HostPort& asked);
  /// Null when the slot has no master. Valid until the map changes.
  [[nodiscard]] const HostPort* master_of(Slot slot) const noexcept;
  [[nodiscard]] std::set<HostPort> masters() const;
  /// Masters and replicas, which can be asked for the map.
  [[nodiscard]] const std::vector<HostPort>& servers() const noexcept { return servers_; }
  [[nodiscard]] bool agrees_with(const SlotMap& other) const;
  [[nodiscard]] std::optional<Slot> first_gap() const;
  void learn(Slot slot, const HostPort& master);
  /// Takes from another map the masters of slots that have none here, or whose masters here are suspects
  /// while those of the other map are not.
  void complete(const SlotMap& other, const std::set<HostPort>& suspects);

 private:
  using Index = std::uint16_t;
  static constexpr Index kNoServer = 0xffff;

  [[nodiscard]] bool add(const Reply& range, const HostPort& asked);
  [[nodiscard]] Index index_of(const HostPort& server);
  [[nodiscard]] Index better_of(Index mine, const SlotMap& other, Index theirs,
                                const std::set<HostPort>& suspects);

  std::vector<HostPort> servers_;
  std::array<Index, kSlots> owners_;
};

}  // namespace overlimit::redis::protocol
