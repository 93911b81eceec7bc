#include "values/digests.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <functional>

namespace overlimit::values {
namespace {

using Word = std::uint32_t;
using Block = std::array<Word, 16>;
constexpr std::size_t kBlockBytes = 64;
constexpr std::size_t kLengthAt = 56;  // in the last block: the length in bits, in eight bytes

// FIPS 180-4, section 6.1. The four constants are the square roots of 2, 3, 5 and 10.
struct Sha1 {
  std::array<Word, 5> state{0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};

  void add(const Block& block) {
    std::array<Word, 80> w{};
    std::ranges::copy(block, w.begin());
    for (std::size_t t = 16; t < w.size(); ++t) {
      w[t] = std::rotl(w[t - 3] ^ w[t - 8] ^ w[t - 14] ^ w[t - 16], 1);
    }
    auto [a, b, c, d, e] = state;
    for (std::size_t t = 0; t < w.size(); ++t) {
      const Word next = std::rotl(a, 5) + mixed(t, b, c, d) + e + w[t];
      e = d;
      d = c;
      c = std::rotl(b, 30);
      b = a;
      a = next;
    }
    const std::array<Word, 5> sums{a, b, c, d, e};
    std::ranges::transform(state, sums, state.begin(), std::plus<>());
  }

  static Word mixed(std::size_t t, Word b, Word c, Word d) {
    if (t < 20) return ((b & c) | (~b & d)) + 0x5a827999;
    if (t < 40) return (b ^ c ^ d) + 0x6ed9eba1;
    if (t < 60) return ((b & c) | (b & d) | (c & d)) + 0x8f1bbcdc;
    return (b ^ c ^ d) + 0xca62c1d6;
  }
};

// FIPS 180-4, section 4.2.2: the cube roots of the first 64 primes.
constexpr std::array<Word, 64> kCubeRoots{
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

// FIPS 180-4, section 6.2.
struct Sha256 {
  std::array<Word, 8> state{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                            0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

  void add(const Block& block) {
    std::array<Word, 64> w{};
    std::ranges::copy(block, w.begin());
    for (std::size_t t = 16; t < w.size(); ++t) {
      const Word before = w[t - 15];
      const Word last = w[t - 2];
      w[t] = w[t - 16] + (std::rotr(before, 7) ^ std::rotr(before, 18) ^ (before >> 3)) + w[t - 7] +
             (std::rotr(last, 17) ^ std::rotr(last, 19) ^ (last >> 10));
    }
    auto [a, b, c, d, e, f, g, h] = state;
    for (std::size_t t = 0; t < w.size(); ++t) {
      const Word first = h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) + ((e & f) ^ (~e & g)) +
                         kCubeRoots[t] + w[t];
      const Word second =
          (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
      h = g;
      g = f;
      f = e;
      e = d + first;
      d = c;
      c = b;
      b = a;
      a = first + second;
    }
    const std::array<Word, 8> sums{a, b, c, d, e, f, g, h};
    std::ranges::transform(state, sums, state.begin(), std::plus<>());
  }
};

/// 64 bytes as words, the most significant byte first.
Block block_of(std::string_view bytes) {
  Block block{};
  for (std::size_t i = 0; i < kBlockBytes; ++i) {
    block[i / 4] = block[i / 4] << 8 | static_cast<unsigned char>(bytes[i]);
  }
  return block;
}

/// What is left of a text after its whole blocks, with a 1 bit, zeros and the length: one block or two.
std::string padded(std::string_view rest, std::uint64_t bytes) {
  std::string end(rest);
  end += '\x80';
  end.resize((rest.size() < kLengthAt ? 1 : 2) * kBlockBytes);
  std::uint64_t bits = 8 * bytes;
  for (std::size_t i = 1; bits != 0; ++i, bits >>= 8) end[end.size() - i] = static_cast<char>(bits & 0xff);
  return end;
}

template <class Hash>
std::string hex_of(std::string_view text) {
  Hash hash;
  const auto add_blocks = [&hash](std::string_view bytes) {
    for (; bytes.size() >= kBlockBytes; bytes.remove_prefix(kBlockBytes)) hash.add(block_of(bytes));
    return bytes;
  };
  add_blocks(padded(add_blocks(text), text.size()));
  std::string digits;
  for (const Word word : hash.state) {
    for (int shift = 28; shift >= 0; shift -= 4) digits += "0123456789abcdef"[word >> shift & 0xf];
  }
  return digits;
}

}  // namespace

std::string sha1_hex(std::string_view text) { return hex_of<Sha1>(text); }
std::string sha256_hex(std::string_view text) { return hex_of<Sha256>(text); }

}  // namespace overlimit::values
