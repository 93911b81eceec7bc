#include "overlimit/limit.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "../limits.hpp"
#include "overlimit/errors.hpp"

namespace overlimit {
namespace {

using namespace testing;

std::string message_of(std::string_view algorithm, std::vector<std::int64_t> numbers,
                       std::optional<std::string> name = std::nullopt) {
  try {
    const Limit limit(algorithm, numbers, std::move(name));
  } catch (const InvalidLimit& error) {
    return error.what();
  }
  return "no error";
}

TEST(Limit, IsAnAlgorithmByName) {
  EXPECT_EQ(fixed_window(1, kMinute).algorithm_name(), "fixed_window");
  EXPECT_EQ(sliding_window(1, kMinute).algorithm_name(), "sliding_window");
  EXPECT_EQ(token_bucket(1, 1).algorithm_name(), "token_bucket");
}

TEST(Limit, NamesAnAlgorithmThatIsNotThere) {
  EXPECT_EQ(message_of("no_such", {1, 2, 3}), "there is no algorithm named 'no_such'");
}

TEST(Limit, NamesTheArgumentAndTheValueThatIsWrong) {
  EXPECT_EQ(message_of("fixed_window", {-1, kMinute, 0}),
            "limit must be a whole number from 0 to 2^53 - 1, not -1");
  EXPECT_EQ(message_of("sliding_window", {1, 0, 0}), "per must be from 1 to 2^49 microseconds, not 0");
  EXPECT_EQ(message_of("sliding_window", {1, 100, 30}),
            "precision must be a whole part of the period, in microseconds, not 30");
  EXPECT_EQ(message_of("token_bucket", {1, 1}), "token_bucket takes 7 numbers, not 2");
}

/// Numbers of a limit, one of which is changed: which, and to what.
struct Changed {
  std::string_view algorithm;
  std::vector<std::int64_t> numbers;
  std::vector<std::pair<std::size_t, std::int64_t>> to;

  void for_each(const std::function<void(const std::vector<std::int64_t>&)>& action) const {
    for (const auto& [place, number] : to) {
      std::vector<std::int64_t> changed = numbers;
      changed[place] = number;
      SCOPED_TRACE(std::string(algorithm) + ::testing::PrintToString(changed));
      action(changed);
    }
  }
};

constexpr Micros kLongest = kMaxPeriod.micros();

TEST(Limit, IsBuiltFromNumbersInRange) {
  const Changed in_range[] = {
      {"fixed_window", {0, 1, 0}, {{0, kExact - 1}, {1, kLongest}, {2, 1}}},
      {"sliding_window", {0, kLongest, 0}, {{0, kExact - 1}, {1, 1}, {2, kLongest}}},
      {"sliding_window", {1, 4096, 0}, {{2, 1}}},
      {"sliding_log", {0, 1}, {{0, 10'000}, {1, kLongest}}},
      {"sliding_window_counter", {0, 1}, {{0, kExact - 1}, {1, kLongest}}},
      {"leaky_bucket", {1, 1, 0}, {{2, kExact - 2}, {1, kLongest}, {0, kExact - 1}}},
      {"paced_leaky_bucket",
       {1, 1, 0, 1},
       {{0, kExact - 1}, {1, kLongest}, {2, kExact - 2}, {3, kExact - 1}}},
      {"token_bucket", {1, 1, 1, kExact - 1, 1, 0, 0}, {{0, kExact - 1}, {1, kLongest}, {2, kExact - 1}}},
      {"token_bucket", {5, kSecond, 1, 2, kSecond, 0, 0}, {{4, 1}, {5, 1}, {6, 3}, {6, kExact - 6}}},
  };
  for (const Changed& each : in_range) {
    each.for_each([&](const auto& numbers) { EXPECT_NO_THROW(Limit(each.algorithm, numbers)); });
  }
}

TEST(Limit, IsNotBuiltFromOtherNumbersNorFromFewer) {
  const Changed out_of_range[] = {
      {"fixed_window",
       {3, kMinute, 0},
       {{0, -1}, {0, kExact}, {1, 0}, {1, -1}, {1, kLongest + 1}, {2, 2}, {2, 3}, {2, -1}}},
      {"sliding_window", {1, kMinute, 0}, {{0, -1}, {0, kExact}, {1, 0}, {1, kLongest + 1}}},
      {"sliding_window", {1, 100, 0}, {{2, 30}, {2, 200}, {2, -1}}},
      {"sliding_window", {1, 4097, 0}, {{2, 1}}},
      {"sliding_log", {1, kMinute}, {{0, -1}, {0, 10'001}, {1, 0}, {1, kLongest + 1}}},
      {"sliding_window_counter", {1, kMinute}, {{0, -1}, {0, kExact}, {1, 0}, {1, kLongest + 1}}},
      // A queue that would never drain, too.
      {"leaky_bucket",
       {2, kSecond, 1},
       {{0, -1}, {0, kExact}, {1, 0}, {1, kLongest + 1}, {2, -1}, {2, kExact - 2}, {0, 0}}},
      {"paced_leaky_bucket",
       {2, kSecond, 1, 1},
       {{0, -1},
        {0, 0},
        {0, kExact},
        {1, 0},
        {1, kLongest + 1},
        {2, -1},
        {2, kExact / 500'000},
        {3, 0},
        {3, -1}}},
      // 2^53 units in all, and a burst that would never come back, too.
      {"token_bucket",
       {2, kSecond, 1, 1, 1, 0, 0},
       {{0, -1},
        {0, kExact},
        {1, 0},
        {1, kLongest + 1},
        {2, 0},
        {2, kExact},
        {3, -1},
        {3, kExact},
        {2, kExact / 2},
        {3, 0},
        {4, 2},
        {5, 1}}},
      {"token_bucket", {5, kSecond, 1, 2, kSecond, 0, 0}, {{5, 2}, {6, -1}, {6, kExact - 5}}},
  };
  for (const Changed& each : out_of_range) {
    each.for_each([&](const auto& numbers) { EXPECT_THROW(Limit(each.algorithm, numbers), InvalidLimit); });
    const std::span fewer = std::span(each.numbers).first(each.numbers.size() - 1);
    EXPECT_THROW(Limit(each.algorithm, fewer), InvalidLimit) << each.algorithm;
  }
}

TEST(Limit, TakesANameThatMayStandInAKey) {
  EXPECT_EQ(fixed_window(1, kMinute, "a-B.9_").name(), "a-B.9_");
  EXPECT_EQ(fixed_window(1, kMinute).name(), std::nullopt);
  EXPECT_EQ(message_of("fixed_window", {1, kMinute, 0}, "a b"),
            "a limit's name must be 1 to 64 characters of A-Z a-z 0-9 _ . -, not 'a b'");
}

TEST(Limit, PacksTheNumbersItsScriptReads) {
  EXPECT_EQ(fixed_window(3, kMinute).packed(), (std::vector<std::int64_t>{3, kMinute, 0, 0, 0, 0}));
  EXPECT_EQ(epoch_window(3, kMinute).packed(), (std::vector<std::int64_t>{3, kMinute, 1, 0, 0, 0}));
  EXPECT_EQ(sliding_window(3, kMinute).packed(), (std::vector<std::int64_t>{3, 1'200'000, 50}));
  EXPECT_EQ(paced_bucket(10, kSecond, 3, 2).packed(), (std::vector<std::int64_t>{5, 3, 100'000, 1, 1, 0}));
  EXPECT_EQ(token_bucket(20, 10).packed(), (std::vector<std::int64_t>{20, 0, 100'000, 1, 1, 0}));
}

TEST(Limit, KnowsHowManyCellsItsRecordHolds) {
  EXPECT_EQ(fixed_window(3, kMinute).max_cells(), 0);
  EXPECT_EQ(sliding_window(3, kMinute, kSecond).max_cells(), 60);
  EXPECT_EQ(token_bucket(3, 1).max_cells(), 0);
}

// Tags are stored: these must never change, or every limit in Redis starts anew.
TEST(Tag, IsTheSameInEveryProcessAndRelease) {
  EXPECT_EQ(fixed_window(3, kMinute).tag(), hash_of("fixed_window 60000000 0"));
  EXPECT_EQ(sliding_window(3, kMinute, kSecond, "a").tag(2),
            hash_of("sliding_window 60000000 1000000 name a number 2"));
  EXPECT_EQ(token_bucket(3, 1).tag(), hash_of("token_bucket 1000000 1 0"));
}

TEST(HashOf, GivesTheKnownAnswersOfFnv1a) {
  EXPECT_EQ(hash_of(""), 0xcbf29ce484222325U);
  EXPECT_EQ(hash_of("a"), 0xaf63dc4c8601ec8cU);
  EXPECT_EQ(hash_of("foobar"), 0x85944171f73967e8U);
  EXPECT_EQ(hash_of("\xff"), (0xcbf29ce484222325U ^ 0xff) * 0x100000001b3U) << "bytes are unsigned";
}

TEST(IsKeyName, HoldsForOneTo64SafeCharacters) {
  EXPECT_TRUE(is_key_name("a"));
  EXPECT_TRUE(is_key_name("AZaz09_.-"));
  EXPECT_TRUE(is_key_name(std::string(64, 'x')));
  EXPECT_FALSE(is_key_name(""));
  EXPECT_FALSE(is_key_name(std::string(65, 'x')));
}

TEST(IsKeyName, FailsForEveryOtherCharacter) {
  for (const char other : {' ', ':', '#', '{', '}', '/', '\0', '\n', '\xc3'}) {
    EXPECT_FALSE(is_key_name(std::string{'a', other})) << int{other};
  }
}

}  // namespace
}  // namespace overlimit
