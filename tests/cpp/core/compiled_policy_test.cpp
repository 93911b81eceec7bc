#include "overlimit/compiled_policy.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <set>
#include <string_view>
#include <vector>

#include "../limits.hpp"
#include "overlimit/errors.hpp"

namespace overlimit {
namespace {

using namespace testing;

static_assert(std::endian::native == std::endian::little);

std::vector<std::int64_t> words_of(const std::string& packed) {
  std::vector<std::int64_t> words(packed.size() / 8);
  std::memcpy(words.data(), packed.data(), packed.size());
  return words;
}

std::set<Tag> tags_of(const CompiledPolicy& policy) {
  std::set<Tag> tags;
  for (const CompiledLimit& compiled : policy.limits()) tags.insert(compiled.tag);
  return tags;
}

TEST(CompiledPolicy, IsOrderedByAlgorithmThenTag) {
  const CompiledPolicy policy("p", {token_bucket(1, 1), sliding_window(1, kSecond),
                                    sliding_window(1, kMinute), fixed_window(1, kMinute)});
  std::vector<std::string_view> algorithms;
  for (const CompiledLimit& compiled : policy.limits()) algorithms.push_back(compiled.limit.algorithm_name());
  EXPECT_EQ(algorithms, (std::vector<std::string_view>{"fixed_window", "sliding_window", "sliding_window",
                                                       "token_bucket"}));
  EXPECT_LT(policy.limits()[1].tag, policy.limits()[2].tag);
}

TEST(CompiledPolicy, IsTheSameInWhateverOrderTheLimitsAreGiven) {
  std::vector<Limit> limits{token_bucket(1, 1), sliding_window(2, kSecond), sliding_window(3, kMinute),
                            fixed_window(4, kMinute)};
  const CompiledPolicy policy("p", limits);
  for (int i = 0; i < 4; ++i) {
    std::rotate(limits.begin(), limits.begin() + 1, limits.end());
    const CompiledPolicy other("p", limits);
    EXPECT_EQ(other.packed(), policy.packed());
  }
}

TEST(CompiledPolicy, RemembersWhereEachLimitStood) {
  const CompiledPolicy policy("p", {token_bucket(1, 1), fixed_window(1, kMinute)});
  EXPECT_EQ(policy.limits()[0].place, 1U);
  EXPECT_EQ(policy.limits()[1].place, 0U);
}

TEST(CompiledPolicy, NumbersLimitsAlikeInTheOrderGiven) {
  const CompiledPolicy policy(
      "p", {fixed_window(10, kMinute), fixed_window(20, kMinute), fixed_window(30, kMinute)});
  for (const CompiledLimit& compiled : policy.limits()) {
    EXPECT_EQ(compiled.tag, fixed_window(1, kMinute).tag(compiled.place));
    EXPECT_EQ(compiled.limit.packed()[0], std::int64_t(10 * (compiled.place + 1)));
  }
  EXPECT_EQ(tags_of(policy).size(), 3U);
}

TEST(CompiledPolicy, DoesNotNumberLimitsThatHaveNames) {
  const CompiledPolicy policy("p", {fixed_window(10, kMinute, "a"), fixed_window(20, kMinute, "b")});
  EXPECT_EQ(tags_of(policy),
            (std::set<Tag>{fixed_window(1, kMinute, "a").tag(), fixed_window(1, kMinute, "b").tag()}));
}

TEST(CompiledPolicy, PacksEachLimitAsItsAlgorithmItsTagAndSixLittleEndianWords) {
  const CompiledPolicy policy("p", {token_bucket(20, 10), fixed_window(3, kMinute)});
  EXPECT_EQ(policy.packed().substr(0, 1), "\1");
  EXPECT_EQ(words_of(policy.packed().substr(1, 56)),
            (std::vector<std::int64_t>{static_cast<std::int64_t>(fixed_window(3, kMinute).tag()), 3, kMinute,
                                       0, 0, 0, 0}));
  EXPECT_EQ(policy.packed().substr(57, 1), "\3");
  EXPECT_EQ(words_of(policy.packed().substr(58, 56)),
            (std::vector<std::int64_t>{static_cast<std::int64_t>(token_bucket(20, 10).tag()), 20, 0, 100'000,
                                       1, 1, 0}));
  EXPECT_EQ(policy.packed().substr(9, 8), std::string("\3\0\0\0\0\0\0\0", 8));
}

TEST(CompiledPolicy, ChangesItsNumbersButNotItsTagsWithTheLimits) {
  const CompiledPolicy before("p", {fixed_window(3, kMinute), sliding_window(3, kMinute)});
  const CompiledPolicy after("p", {fixed_window(4, kMinute), sliding_window(5, kMinute)});
  EXPECT_EQ(tags_of(before), tags_of(after));
  EXPECT_NE(before.packed(), after.packed());
}

TEST(CompiledPolicy, CountsTheCellsOfAllItsLimits) {
  EXPECT_EQ(CompiledPolicy(
                "p", {sliding_window(1, kMinute, kSecond), sliding_window(1, kMinute), token_bucket(1, 1)})
                .max_cells(),
            110);
}

TEST(CompiledPolicy, HasADigestOfItsNameAlone) {
  const CompiledPolicy policy("p", {fixed_window(1, kMinute)});
  EXPECT_EQ(policy.digest(), CompiledPolicy("p", {token_bucket(1, 1)}).digest());
  EXPECT_NE(policy.digest(), CompiledPolicy("q", {fixed_window(1, kMinute)}).digest());
  EXPECT_EQ(policy.name(), "p");
}

TEST(CompiledPolicy, HasADigestOfItsLimitsWithAllTheirNumbersWhateverItsName) {
  const CompiledPolicy policy("p", {fixed_window(3, kMinute), token_bucket(2, 1)}, penalty({5, 6}));
  EXPECT_EQ(
      policy.limits_digest(),
      CompiledPolicy("q", {token_bucket(2, 1), fixed_window(3, kMinute)}, penalty({5, 6})).limits_digest());
  for (const CompiledPolicy& other :
       {CompiledPolicy("p", {fixed_window(4, kMinute), token_bucket(2, 1)}, penalty({5, 6})),
        CompiledPolicy("p", {fixed_window(3, kMinute), token_bucket(2, 2)}, penalty({5, 6})),
        CompiledPolicy("p", {fixed_window(3, kMinute), token_bucket(2, 1)}, penalty({5, 7})),
        CompiledPolicy("p", {fixed_window(3, kMinute), token_bucket(2, 1)}),
        CompiledPolicy("p", {fixed_window(3, kMinute)}, penalty({5, 6}))}) {
    EXPECT_NE(other.limits_digest(), policy.limits_digest());
  }
}

TEST(CompiledPolicy, HasOneTo16Limits) {
  EXPECT_NO_THROW(CompiledPolicy("p", std::vector(1, fixed_window(1, kMinute))));
  EXPECT_EQ(CompiledPolicy("p", std::vector(16, fixed_window(1, kMinute))).size(), 16U);
  EXPECT_THROW(CompiledPolicy("p", {}), InvalidLimit);
  EXPECT_THROW(CompiledPolicy("p", std::vector(17, fixed_window(1, kMinute))), InvalidLimit);
}

TEST(CompiledPolicy, WithAPenaltyHasOneMoreRecordAndNumbersBehindTheOthers) {
  const CompiledPolicy without("p", {fixed_window(3, kMinute)});
  const CompiledPolicy with("p", {fixed_window(3, kMinute)}, penalty({5, 6}, true, 7));
  EXPECT_EQ(std::vector(with.tags().begin(), with.tags().end()),
            (std::vector<Tag>{fixed_window(3, kMinute).tag(), kLockTag}));
  EXPECT_EQ(with.size(), 1U) << "which is no limit";
  EXPECT_EQ(with.packed().substr(0, 57), without.packed().substr(0, 57));
  EXPECT_EQ(without.packed().substr(57), std::string("\0\0", 2)) << "no levels";
  EXPECT_EQ(with.packed().substr(57, 2), "\2\1");
  EXPECT_EQ(words_of(with.packed().substr(59)), (std::vector<std::int64_t>{5, 7, 6, 7}));
  EXPECT_EQ(without.penalty(), nullptr);
  EXPECT_EQ(with.penalty()->levels, durations({5, 6}));
}

TEST(CompiledPolicy, HasAPenaltyThatCanBe) {
  EXPECT_THROW(CompiledPolicy("p", {fixed_window(3, kMinute)}, penalty({})), InvalidLimit);
  EXPECT_THROW(CompiledPolicy("p", {fixed_window(3, kMinute)}, penalty({0})), InvalidLimit);
}

}  // namespace
}  // namespace overlimit
