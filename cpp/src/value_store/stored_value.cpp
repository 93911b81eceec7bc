#include "value_store/stored_value.hpp"

#include <array>

namespace overlimit::values {
namespace {

constexpr char kFormatVersion = 1;

constexpr std::array<std::uint32_t, 256> kCrcOfByte = [] {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < table.size(); ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xedb88320U : 0U);
    table[byte] = crc;
  }
  return table;
}();

}  // namespace

std::uint32_t crc32(std::string_view bytes) noexcept {
  std::uint32_t crc = ~0U;
  for (const char byte : bytes)
    crc = kCrcOfByte[(crc ^ static_cast<unsigned char>(byte)) & 0xff] ^ (crc >> 8);
  return ~crc;
}

std::string stored(const Value& value) {
  std::string bytes(1, kFormatVersion);
  value.append_to(bytes);
  const std::uint32_t crc = crc32(bytes);
  bytes.append(reinterpret_cast<const char*>(&crc), sizeof crc);
  return bytes;
}

Value read_stored(std::string_view bytes) {
  constexpr std::size_t kCrc = sizeof(std::uint32_t);
  if (bytes.size() <= 1 + kCrc || bytes.front() != kFormatVersion) return Value("");
  const std::string_view covered = bytes.substr(0, bytes.size() - kCrc);
  if (crc32(covered) != uint32_at(bytes, covered.size())) return Value("");
  return Value(covered.substr(1));
}

}  // namespace overlimit::values
