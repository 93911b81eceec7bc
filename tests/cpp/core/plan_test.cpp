#include "overlimit/plan.hpp"

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

using testing::fixed_window;
using testing::kMinute;
using testing::kSecond;
using testing::sliding_window;
using testing::token_bucket;

static_assert(std::endian::native == std::endian::little);

std::vector<std::int64_t> words_of(const std::string& packed) {
  std::vector<std::int64_t> words(packed.size() / 8);
  std::memcpy(words.data(), packed.data(), packed.size());
  return words;
}

std::set<Tag> tags_of(const Plan& plan) {
  std::set<Tag> tags;
  for (const PlannedLimit& planned : plan.limits()) tags.insert(planned.tag);
  return tags;
}

TEST(Plan, IsOrderedByAlgorithmThenTag) {
  const Plan plan("p", {token_bucket(1, 1), sliding_window(1, kSecond), sliding_window(1, kMinute),
                        fixed_window(1, kMinute)});
  std::vector<std::string_view> algorithms;
  for (const PlannedLimit& planned : plan.limits()) algorithms.push_back(planned.limit.algorithm_name());
  EXPECT_EQ(algorithms, (std::vector<std::string_view>{"fixed_window", "sliding_window", "sliding_window",
                                                       "token_bucket"}));
  EXPECT_LT(plan.limits()[1].tag, plan.limits()[2].tag);
}

TEST(Plan, IsTheSameInWhateverOrderTheLimitsAreGiven) {
  std::vector<Limit> limits{token_bucket(1, 1), sliding_window(2, kSecond), sliding_window(3, kMinute),
                            fixed_window(4, kMinute)};
  const Plan plan("p", limits);
  for (int i = 0; i < 4; ++i) {
    std::rotate(limits.begin(), limits.begin() + 1, limits.end());
    const Plan other("p", limits);
    EXPECT_EQ(other.packed(), plan.packed());
  }
}

TEST(Plan, RemembersWhereEachLimitStood) {
  const Plan plan("p", {token_bucket(1, 1), fixed_window(1, kMinute)});
  EXPECT_EQ(plan.limits()[0].place, 1U);
  EXPECT_EQ(plan.limits()[1].place, 0U);
}

TEST(Plan, NumbersLimitsAlikeInTheOrderGiven) {
  const Plan plan("p", {fixed_window(10, kMinute), fixed_window(20, kMinute), fixed_window(30, kMinute)});
  for (const PlannedLimit& planned : plan.limits()) {
    EXPECT_EQ(planned.tag, fixed_window(1, kMinute).tag(planned.place));
    EXPECT_EQ(planned.limit.packed()[0], std::int64_t(10 * (planned.place + 1)));
  }
  EXPECT_EQ(tags_of(plan).size(), 3U);
}

TEST(Plan, DoesNotNumberLimitsThatHaveNames) {
  const Plan plan("p", {fixed_window(10, kMinute, "a"), fixed_window(20, kMinute, "b")});
  EXPECT_EQ(tags_of(plan),
            (std::set<Tag>{fixed_window(1, kMinute, "a").tag(), fixed_window(1, kMinute, "b").tag()}));
}

TEST(Plan, PacksEachLimitAsItsAlgorithmItsTagAndSixLittleEndianWords) {
  const Plan plan("p", {token_bucket(20, 10), fixed_window(3, kMinute)});
  EXPECT_EQ(plan.packed().substr(0, 1), "\1");
  EXPECT_EQ(words_of(plan.packed().substr(1, 56)),
            (std::vector<std::int64_t>{static_cast<std::int64_t>(fixed_window(3, kMinute).tag()), 3, kMinute,
                                       0, 0, 0, 0}));
  EXPECT_EQ(plan.packed().substr(57, 1), "\3");
  EXPECT_EQ(words_of(plan.packed().substr(58, 56)),
            (std::vector<std::int64_t>{static_cast<std::int64_t>(token_bucket(20, 10).tag()), 20, 0, 100'000,
                                       1, 1, 0}));
  EXPECT_EQ(plan.packed().substr(9, 8), std::string("\3\0\0\0\0\0\0\0", 8));
}

TEST(Plan, ChangesItsNumbersButNotItsTagsWithTheLimits) {
  const Plan before("p", {fixed_window(3, kMinute), sliding_window(3, kMinute)});
  const Plan after("p", {fixed_window(4, kMinute), sliding_window(5, kMinute)});
  EXPECT_EQ(tags_of(before), tags_of(after));
  EXPECT_NE(before.packed(), after.packed());
}

TEST(Plan, CountsTheCellsOfAllItsLimits) {
  EXPECT_EQ(Plan("p", {sliding_window(1, kMinute, kSecond), sliding_window(1, kMinute), token_bucket(1, 1)})
                .max_cells(),
            110);
}

TEST(Plan, HasADigestOfItsNameAlone) {
  const Plan plan("p", {fixed_window(1, kMinute)});
  EXPECT_EQ(plan.digest(), Plan("p", {token_bucket(1, 1)}).digest());
  EXPECT_NE(plan.digest(), Plan("q", {fixed_window(1, kMinute)}).digest());
  EXPECT_EQ(plan.policy(), "p");
}

TEST(Plan, HasADigestOfItsLimitsWithAllTheirNumbersWhateverItsName) {
  const Plan plan("p", {fixed_window(3, kMinute), token_bucket(2, 1)}, Penalty{{5, 6}});
  EXPECT_EQ(plan.limits_digest(),
            Plan("q", {token_bucket(2, 1), fixed_window(3, kMinute)}, Penalty{{5, 6}}).limits_digest());
  for (const Plan& other : {Plan("p", {fixed_window(4, kMinute), token_bucket(2, 1)}, Penalty{{5, 6}}),
                            Plan("p", {fixed_window(3, kMinute), token_bucket(2, 2)}, Penalty{{5, 6}}),
                            Plan("p", {fixed_window(3, kMinute), token_bucket(2, 1)}, Penalty{{5, 7}}),
                            Plan("p", {fixed_window(3, kMinute), token_bucket(2, 1)}),
                            Plan("p", {fixed_window(3, kMinute)}, Penalty{{5, 6}})}) {
    EXPECT_NE(other.limits_digest(), plan.limits_digest());
  }
}

TEST(Plan, HasOneTo16Limits) {
  EXPECT_NO_THROW(Plan("p", std::vector(1, fixed_window(1, kMinute))));
  EXPECT_EQ(Plan("p", std::vector(16, fixed_window(1, kMinute))).size(), 16U);
  EXPECT_THROW(Plan("p", {}), InvalidLimit);
  EXPECT_THROW(Plan("p", std::vector(17, fixed_window(1, kMinute))), InvalidLimit);
}

TEST(Plan, HasANameThatMayStandInAKey) {
  EXPECT_NO_THROW(Plan(std::string(64, 'p'), {fixed_window(1, kMinute)}));
  for (const std::string& name : std::vector<std::string>{"", std::string(65, 'p'), "a:b", "a#b"}) {
    EXPECT_THROW(Plan(name, {fixed_window(1, kMinute)}), InvalidLimit) << name;
  }
}

TEST(Plan, WithAPenaltyHasOneMoreRecordAndNumbersBehindTheOthers) {
  const Plan without("p", {fixed_window(3, kMinute)});
  const Plan with("p", {fixed_window(3, kMinute)}, Penalty{{5, 6}, true, 7});
  EXPECT_EQ(std::vector(with.tags().begin(), with.tags().end()),
            (std::vector<Tag>{fixed_window(3, kMinute).tag(), kLockTag}));
  EXPECT_EQ(with.size(), 1U) << "which is no limit";
  EXPECT_EQ(with.packed().substr(0, 57), without.packed().substr(0, 57));
  EXPECT_EQ(without.packed().substr(57), std::string("\0\0", 2)) << "no levels";
  EXPECT_EQ(with.packed().substr(57, 2), "\2\1");
  EXPECT_EQ(words_of(with.packed().substr(59)), (std::vector<std::int64_t>{5, 7, 6, 7}));
  EXPECT_EQ(without.penalty(), nullptr);
  EXPECT_EQ(with.penalty()->levels, (std::vector<Micros>{5, 6}));
}

TEST(Plan, HasAPenaltyThatCanBe) {
  EXPECT_THROW(Plan("p", {fixed_window(3, kMinute)}, Penalty{{}}), InvalidLimit);
  EXPECT_THROW(Plan("p", {fixed_window(3, kMinute)}, Penalty{{0}}), InvalidLimit);
}

}  // namespace
}  // namespace overlimit
