#include "table/keyed_hash.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace overlimit::table {
namespace {

std::pair<std::uint64_t, std::uint64_t> words(const KeyHash& hash) { return {hash.low, hash.high}; }

class Hashing : public ::testing::Test {
 protected:
  KeyedHash hash;
};

TEST_F(Hashing, IsAFunctionOfPolicyAndIdentifier) {
  EXPECT_EQ(hash(1, "ip:1"), hash(1, std::string("ip:1")));
  EXPECT_NE(hash(1, "ip:1"), hash(2, "ip:1"));
  EXPECT_NE(hash(1, "ip:1"), hash(1, "ip:2"));
}

TEST_F(Hashing, DiffersForEveryLengthOfTheSameByte) {
  std::set<std::pair<std::uint64_t, std::uint64_t>> seen;
  for (std::size_t length = 1; length <= 100; ++length) {
    seen.insert(words(hash(1, std::string(length, '\0'))));
    seen.insert(words(hash(1, std::string(length, 'x'))));
  }
  EXPECT_EQ(seen.size(), 200U);
}

TEST_F(Hashing, DependsOnEveryBit) {
  for (const std::size_t length : {1U, 7U, 8U, 9U, 16U, 31U}) {
    const std::string identifier(length, 'x');
    for (std::size_t bit = 0; bit < 8 * length; ++bit) {
      std::string other = identifier;
      other[bit / 8] = static_cast<char>(other[bit / 8] ^ (1 << bit % 8));
      ASSERT_NE(hash(1, identifier).low, hash(1, other).low);
      ASSERT_NE(hash(1, identifier).high, hash(1, other).high);
    }
  }
}

TEST_F(Hashing, ReadsNothingOutsideTheIdentifier) {
  const std::string text = "aaaXbbb";
  const std::string other = "aaaYbbb";
  EXPECT_EQ(hash(1, std::string_view(text).substr(0, 3)), hash(1, std::string_view(other).substr(0, 3)));
  EXPECT_EQ(hash(1, std::string_view(text).substr(4)), hash(1, std::string_view(other).substr(4)));
}

TEST_F(Hashing, SpreadsIdentifiersThatLookAlikeEvenly) {
  constexpr int kKeys = 64 * 1000;
  std::vector<int> by_shard(64);
  std::vector<int> by_home(64);
  std::vector<int> by_fingerprint(64);
  for (int i = 0; i < kKeys; ++i) {
    const KeyHash key = hash(1, "user:" + std::to_string(i));
    ++by_shard[key.low & 63];
    ++by_home[key.low >> 8 & 63];
    ++by_fingerprint[key.high & 63];
  }
  for (const auto& counts : {by_shard, by_home, by_fingerprint}) {
    EXPECT_GT(*std::ranges::min_element(counts), 800);  // six sigma are about 190
    EXPECT_LT(*std::ranges::max_element(counts), 1200);
  }
}

TEST_F(Hashing, SetsEveryBitOfItsResultAboutHalfOfTheTime) {
  std::vector<int> set_bits(96);
  for (int i = 0; i < 4000; ++i) {
    const KeyHash key = hash(1, std::to_string(i));
    for (int bit = 0; bit < 64; ++bit) set_bits[std::size_t(bit)] += int(key.low >> bit & 1);
    for (int bit = 0; bit < 32; ++bit) set_bits[std::size_t(bit) + 64] += int(key.high >> bit & 1);
  }
  EXPECT_GT(*std::ranges::min_element(set_bits), 1750);
  EXPECT_LT(*std::ranges::max_element(set_bits), 2250);
}

TEST(KeyedHash, IsAnotherFunctionForEveryTable) {
  const KeyedHash one;
  const KeyedHash other;
  EXPECT_NE(one(1, "ip:1").low, other(1, "ip:1").low);
  EXPECT_NE(one(1, "ip:1").high, other(1, "ip:1").high);
}

}  // namespace
}  // namespace overlimit::table
