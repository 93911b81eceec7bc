// A keyed 96-bit hash of (policy, identifier). The key is random per process, so that nobody outside can
// choose identifiers that collide; with 96 bits nobody inside will see a collision either: among 2^32 keys
// there is one with a probability of 2^-33.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <random>
#include <string_view>

#include "overlimit/kept_key.hpp"

namespace overlimit::table {

using KeyHash = KeptKey::Hash;

class KeyedHash {
 public:
  /// A fresh random key.
  KeyedHash() {
    std::random_device random;
    for (std::uint64_t& word : key_) {
      // Odd, so that multiplying loses nothing.
      word = ((std::uint64_t{random()} << 32) | random()) | 1;
    }
  }
  KeyHash operator()(std::uint64_t policy, std::string_view identifier) const noexcept;

 private:
  std::array<std::uint64_t, 4> key_{};
};

/// Multiplies two words and folds the 128-bit product: one step of mixing.
inline std::uint64_t mix(std::uint64_t a, std::uint64_t b) noexcept {
  __extension__ using Wide = unsigned __int128;
  const Wide wide = Wide(a) * Wide(b);
  return static_cast<std::uint64_t>(wide) ^ static_cast<std::uint64_t>(wide >> 64);
}

inline std::uint64_t word_at(const char* bytes) noexcept {
  std::uint64_t word = 0;
  std::memcpy(&word, bytes, sizeof word);
  return word;
}

inline std::uint64_t half_word_at(const char* bytes) noexcept {
  std::uint32_t half = 0;
  std::memcpy(&half, bytes, sizeof half);
  return half;
}

/// A word of 0 to 7 bytes, which with their number tells them apart. The pieces overlap, as copying a number
/// of bytes that varies takes a call.
inline std::uint64_t last_word(const char* bytes, std::size_t size) noexcept {
  if (size >= 4) return half_word_at(bytes) << 32 | half_word_at(bytes + size - 4);
  if (size == 0) return 0;
  const auto byte = [&](std::size_t at) { return std::uint64_t{static_cast<unsigned char>(bytes[at])}; };
  return byte(0) << 16 | byte(size / 2) << 8 | byte(size - 1);
}

inline KeyHash KeyedHash::operator()(std::uint64_t policy, std::string_view identifier) const noexcept {
  const char* bytes = identifier.data();
  std::size_t left = identifier.size();
  std::uint64_t low = key_[0] ^ policy;
  std::uint64_t high = key_[1] ^ left;
  for (; left >= 8; left -= 8, bytes += 8) {
    const std::uint64_t word = word_at(bytes);
    low = mix(low ^ word, key_[2]);
    high = mix(high ^ word, key_[3]);
  }
  const std::uint64_t tail = last_word(bytes, left);
  low = mix(low ^ tail, key_[2] ^ identifier.size());
  high = mix(high ^ tail, key_[3] ^ policy);
  return {mix(low ^ key_[1], high ^ key_[3]),
          static_cast<std::uint32_t>(mix(high ^ key_[0], low ^ key_[2]) >> 32)};
}

}  // namespace overlimit::table
