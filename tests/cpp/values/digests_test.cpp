#include "values/digests.hpp"

#include <gtest/gtest.h>

#include <string>

namespace overlimit::values {
namespace {

// The examples of FIPS 180-4, as NIST publishes them.
TEST(Digests, AreThoseOfThePublishedExamples) {
  EXPECT_EQ(sha1_hex("abc"), "a9993e364706816aba3e25717850c26c9cd0d89d");
  EXPECT_EQ(sha1_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "84983e441c3bd26ebaae4aa1f95129e5e54670f1");
  EXPECT_EQ(sha1_hex(std::string(1'000'000, 'a')), "34aa973cd4c4daa4f61eeb2bdbad27316534016f");
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

// A text ends anywhere in a block: of 55 bytes it is padded to one, of 56 to two. The sums were made by
// Python's hashlib.
TEST(Digests, OfEveryLengthOfTheLastBlockAreRight) {
  std::string sha1s;
  std::string sha256s;
  for (std::size_t length = 0; length <= 130; ++length) {
    sha1s += sha1_hex(std::string(length, '\xff'));
    sha256s += sha256_hex(std::string(length, '\xff'));
  }
  EXPECT_EQ(sha256_hex(sha1s), "41c6ec088a0be4e75cdf7eca98797bddd4f93f7a1b6c80092ca7aeb64144bed6");
  EXPECT_EQ(sha256_hex(sha256s), "cf649f34677fc3b17f8e2bdb9c4216d26d31e4e4450e9eb9fd9fa59c73723250");
}

}  // namespace
}  // namespace overlimit::values
