// The slot of a key in a Redis Cluster.
#pragma once

#include <cstdint>
#include <string_view>

namespace overlimit::redis::protocol {

using Slot = std::uint16_t;

inline constexpr std::size_t kSlots = 16384;

/// CRC16 (XMODEM) of the key modulo kSlots; of what stands between the first '{' and the next '}', if there
/// is anything. Source: the Redis Cluster specification, "Key distribution model" and "Hash tags".
[[nodiscard]] Slot key_slot(std::string_view key) noexcept;

}  // namespace overlimit::redis::protocol
