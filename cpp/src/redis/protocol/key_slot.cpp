#include "redis/protocol/key_slot.hpp"

#include <array>
#include <cstddef>

namespace overlimit::redis::protocol {
namespace {

constexpr std::uint16_t kPolynomial = 0x1021;

constexpr std::uint16_t crc_of_byte(std::size_t byte) {
  auto crc = static_cast<std::uint32_t>(byte << 8U);
  for (int bit = 0; bit < 8; ++bit) crc = (crc << 1U) ^ ((crc & 0x8000U) != 0 ? kPolynomial : 0U);
  return static_cast<std::uint16_t>(crc);
}

constexpr std::array<std::uint16_t, 256> crc_table() {
  std::array<std::uint16_t, 256> table{};
  for (std::size_t byte = 0; byte < table.size(); ++byte) table[byte] = crc_of_byte(byte);
  return table;
}

constexpr std::array<std::uint16_t, 256> kCrc = crc_table();

std::uint16_t crc16(std::string_view text) noexcept {
  std::uint16_t crc = 0;
  for (const char each : text) {
    const auto byte = static_cast<unsigned char>(each);
    crc = static_cast<std::uint16_t>((crc << 8U) ^ kCrc[(crc >> 8U) ^ byte]);
  }
  return crc;
}

std::string_view hashed_part(std::string_view key) noexcept {
  const std::size_t open = key.find('{');
  if (open == std::string_view::npos) return key;
  const std::size_t close = key.find('}', open);
  const bool is_tag = close != std::string_view::npos && close > open + 1;
  return is_tag ? key.substr(open + 1, close - open - 1) : key;
}

}  // namespace

Slot key_slot(std::string_view key) noexcept { return static_cast<Slot>(crc16(hashed_part(key)) % kSlots); }

}  // namespace overlimit::redis::protocol
