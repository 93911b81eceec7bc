#include "value_store/stored_value.hpp"

#include <array>

namespace overlimit::values {
namespace {

constexpr char kFormatVersion = 1;

// Of a byte, and of one that so many others follow.
constexpr std::array<std::array<std::uint32_t, 256>, 4> kCrcOfByte = [] {
  std::array<std::array<std::uint32_t, 256>, 4> tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xedb88320U : 0U);
    tables[0][byte] = crc;
  }
  for (std::size_t after = 1; after < tables.size(); ++after) {
    for (std::uint32_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t crc = tables[after - 1][byte];
      tables[after][byte] = (crc >> 8) ^ tables[0][crc & 0xff];
    }
  }
  return tables;
}();

}  // namespace

std::uint32_t crc32(std::string_view bytes) noexcept {
  const auto& [last, third, second, first] = kCrcOfByte;
  std::uint32_t crc = ~0U;
  std::size_t i = 0;
  for (; i + 4 <= bytes.size(); i += 4) {
    crc ^= uint32_at(bytes, i);
    crc = first[crc & 0xff] ^ second[(crc >> 8) & 0xff] ^ third[(crc >> 16) & 0xff] ^ last[crc >> 24];
  }
  for (; i < bytes.size(); ++i) crc = last[(crc ^ static_cast<unsigned char>(bytes[i])) & 0xff] ^ (crc >> 8);
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
