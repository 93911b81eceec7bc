#include "overlimit/algorithms/token_bucket.hpp"

#include <gtest/gtest.h>

#include "../limits.hpp"
#include "lone_pair.hpp"
#include "overlimit/errors.hpp"

namespace overlimit {
namespace {

using testing::bucket_of;
using testing::interval_bucket;
using testing::kMinute;
using testing::kSecond;
using testing::LonePair;
using testing::Shown;
using testing::token_bucket;

TokenBucket made(std::int64_t burst, Micros period, std::int64_t units, std::int64_t refill) {
  return TokenBucket::make(std::to_array<std::int64_t>({burst, period, units, refill, 1, 0, 0}));
}

// Ten tokens a second, twenty at most: one token is 100,000 units and one comes back every microsecond.
class TenASecond : public ::testing::Test {
 protected:
  LonePair pair{token_bucket(20, 10)};
};

TEST_F(TenASecond, IsFullAtFirstUse) {
  EXPECT_EQ(pair.peek(5), (Shown{Status::ok, 20, 0, 0}));
  EXPECT_EQ(pair.hit(5, 20), (Shown{Status::ok, 0, 0, 2 * kSecond}));
}

TEST_F(TenASecond, RefillsOneTokenInATenthOfASecond) {
  pair.hit(0, 20);
  EXPECT_EQ(pair.hit(0), (Shown{Status::over, 0, 100'000, 2 * kSecond}));
  EXPECT_EQ(pair.hit(99'999), (Shown{Status::over, 0, 1, 1'900'001}));
  EXPECT_EQ(pair.hit(100'000), (Shown{Status::ok, 0, 0, 2 * kSecond}));
}

TEST_F(TenASecond, WaitsForAllTokensOfACost) {
  pair.hit(0, 18);
  EXPECT_EQ(pair.peek(0, 5).retry_after, 300'000);
  EXPECT_FALSE(pair.allows(299'999, 5));
  EXPECT_TRUE(pair.allows(300'000, 5));
}

TEST_F(TenASecond, ShowsWholeTokensOnly) {
  pair.hit(0, 2);
  EXPECT_EQ(pair.peek(0).remaining, 18);
  EXPECT_EQ(pair.peek(99'999).remaining, 18);
  EXPECT_EQ(pair.peek(100'000).remaining, 19);
  EXPECT_EQ(pair.peek(199'999).remaining, 19);
  EXPECT_EQ(pair.peek(200'000), (Shown{Status::ok, 20, 0, 0}));
}

TEST_F(TenASecond, HoldsNoMoreThanItsBurstHoweverLongItWaits) {
  pair.hit(0, 20);
  EXPECT_EQ(pair.hit(kMaxTime - 1, 20).status, Status::ok);
  EXPECT_EQ(pair.hit(kMaxTime - 1).status, Status::over);
}

TEST_F(TenASecond, NeverAdmitsACostAboveItsBurst) {
  EXPECT_EQ(pair.hit(0, 21), (Shown{Status::never, 20, kNever, 0}));
  EXPECT_EQ(pair.hit(0, INT64_MAX).status, Status::never);
  EXPECT_FALSE(pair.record());
}

TEST_F(TenASecond, NeitherMintsNorBurnsWhenTheClockGoesBack) {
  pair.hit(kSecond, 20);
  EXPECT_EQ(pair.hit(0), (Shown{Status::over, 0, 100'000, 2 * kSecond}));
  EXPECT_TRUE(pair.allows(kSecond + 100'000));
  EXPECT_FALSE(pair.allows(kSecond + 99'999));
}

TEST_F(TenASecond, GrantsAGreedyCallerItsBurstAndThenItsRate) {
  std::int64_t admitted = 0;
  for (Micros now = 0; now <= 100 * kSecond; now += 1000) admitted += pair.hit(now).status == Status::ok;
  EXPECT_EQ(admitted, 20 + 10 * 100);
}

TEST_F(TenASecond, ARefusedCallOrACostOfZeroDoesNotMoveItsTime) {
  pair.hit(0, 20);
  pair.hit(50'000);
  pair.hit(60'000, 0);
  EXPECT_EQ(pair.record()->header, (Header{2'000'000, 0, 100'000}));
}

TEST_F(TenASecond, ALoweredBurstRefusesEvenACostOfZeroUntilUsageDrains) {
  pair.hit(0, 20);
  pair.change(token_bucket(5, 10));
  EXPECT_EQ(pair.hit(0, 0), (Shown{Status::over, 0, 1'500'000, 2 * kSecond}));
  EXPECT_FALSE(pair.allows(1'499'999, 0));
  EXPECT_TRUE(pair.allows(1'500'000, 0));
}

TEST_F(TenASecond, ARaisedBurstGrantsTheDifference) {
  pair.hit(0, 20);
  pair.change(token_bucket(25, 10));
  EXPECT_TRUE(pair.allows(0, 5));
  EXPECT_FALSE(pair.allows(0, 6));
}

TEST_F(TenASecond, KeepsItsUsedTokensWhenTheRateChanges) {
  pair.hit(0, 20);
  pair.change(token_bucket(20, 100));
  EXPECT_EQ(pair.peek(0, 1).retry_after, 10'000);
  EXPECT_EQ(pair.peek(0).reset_after, 200'000);
  EXPECT_TRUE(pair.allows(10'000));
}

TEST(TokenBucket, RoundsTheWaitUpToAWholeMicrosecond) {
  LonePair pair(bucket_of(1, 10, 3));  // 3/10 tokens a microsecond
  pair.hit(0);
  EXPECT_EQ(pair.peek(0, 1).retry_after, 4);
  EXPECT_FALSE(pair.allows(3));
  EXPECT_TRUE(pair.allows(4));
}

// What a record with other units has used, in those of the bucket.
std::int64_t rescaled(const TokenBucket& bucket, const TokenBucket::State& state,
                      const std::vector<Cell>& cells = {}) {
  return advance(bucket, state, Cells(cells.data(), cells.size()), 0)->state.used;
}

TEST(TokenBucket, RescalesRoundingUp) {
  const TokenBucket bucket = made(9, kSecond, 3, 1);
  EXPECT_EQ(rescaled(bucket, {3, 0, 2}), 5) << "one token and a half is 4.5 thirds";
  EXPECT_EQ(rescaled(bucket, {4, 0, 2}), 6);
  EXPECT_EQ(rescaled(bucket, {1, 0, 1'000'000}), 1);
  EXPECT_EQ(rescaled(bucket, {3, 0, 7}, {{0, -2}}), 5) << "5 were given back";
}

TEST(TokenBucket, RescalesWhatIsNoUseToNothing) {
  const TokenBucket bucket = made(9, kSecond, 3, 1);
  EXPECT_EQ(rescaled(bucket, {0, 0, 2}), 0);
  EXPECT_EQ(rescaled(bucket, {-1, 0, 2}), 0);
  EXPECT_EQ(rescaled(bucket, {5, 0, 0}), 0);
  for (const std::int64_t note : {INT64_MIN, std::int64_t{-8}, std::int64_t{0}, INT64_MAX})
    EXPECT_EQ(rescaled(bucket, {5, 0, 7}, {{0, note}}), 0) << note;
}

TEST(TokenBucket, RescalesLargeNumbersExactlyAndSaturates) {
  const TokenBucket bucket = made(1, kSecond, kExact - 1, 1);
  EXPECT_EQ(rescaled(bucket, {kExact - 2, 0, kExact - 1}), kExact - 2);
  EXPECT_EQ(rescaled(bucket, {(kExact - 1) / 3, 0, (kExact - 1) / 3}), kExact - 1);
  EXPECT_EQ(rescaled(bucket, {kExact - 1, 0, 1}), kExact - 1);
}

TEST(TokenBucket, ResetSaturatesJustBelowTheFirstInexactInstant) {
  LonePair pair(bucket_of(1, kExact - 1, 1));
  EXPECT_EQ(pair.hit(kMaxTime - 1).reset_after, kExact - 1 - (kMaxTime - 1));
}

TEST(TokenBucket, WithoutARateRefusesEverythingButNothing) {
  LonePair pair(bucket_of(0, 1, 0));
  EXPECT_EQ(pair.hit(0, 1), (Shown{Status::never, 0, kNever, 0}));
  EXPECT_EQ(pair.hit(0, 0), (Shown{Status::ok, 0, 0, 0}));
}

TEST(TokenBucket, ForgetsWhatWasUsedWhenItsRateBecomesNone) {
  LonePair pair(token_bucket(20, 10));
  pair.hit(0, 20);
  pair.change(bucket_of(0, 1, 0));
  EXPECT_EQ(pair.hit(0, 1), (Shown{Status::never, 0, kNever, 0}));
}

// Two tokens at once every second, five at most, in a phase of its own.
class TwoEverySecond : public ::testing::Test {
 protected:
  LonePair pair{interval_bucket(5, 2, kSecond)};
};

TEST_F(TwoEverySecond, RefillsWholeIntervalsFromItsFirstChargeOn) {
  EXPECT_EQ(pair.hit(300, 5), (Shown{Status::ok, 0, 0, 3 * kSecond}));
  EXPECT_EQ(pair.peek(kSecond + 299, 1), (Shown{Status::over, 0, 1, 2 * kSecond + 1}));
  EXPECT_EQ(pair.peek(kSecond + 300).remaining, 2);
  EXPECT_EQ(pair.peek(2 * kSecond + 299).remaining, 2);
  EXPECT_EQ(pair.peek(2 * kSecond + 300).remaining, 4);
  EXPECT_EQ(pair.peek(3 * kSecond + 300), (Shown{Status::ok, 5, 0, 0}));
}

TEST_F(TwoEverySecond, WaitsForTheIntervalThatBringsItsCost) {
  pair.hit(0, 5);
  EXPECT_EQ(pair.peek(100, 2).retry_after, kSecond - 100);
  EXPECT_EQ(pair.peek(100, 3).retry_after, 2 * kSecond - 100);
  EXPECT_EQ(pair.peek(100, 5).retry_after, 3 * kSecond - 100);
}

TEST_F(TwoEverySecond, KeepsItsPhaseWhileTokensAreMissing) {
  pair.hit(0, 5);
  pair.hit(kSecond + 700);
  EXPECT_EQ(pair.record()->header, (Header{4, kSecond, 1}));
}

TEST_F(TwoEverySecond, StartsItsPhaseAnewWhenItWasFull) {
  pair.hit(0, 1);
  pair.hit(kSecond + 700);
  EXPECT_EQ(pair.record()->header, (Header{1, kSecond + 700, 1}));
}

TEST_F(TwoEverySecond, MayBeInThePhaseOfTheEpoch) {
  pair.change(interval_bucket(5, 2, kSecond, true));
  pair.hit(kSecond + 900'000, 5);
  EXPECT_EQ(pair.record()->header, (Header{5, kSecond, 1}));
  EXPECT_EQ(pair.peek(kSecond + 900'000, 1).retry_after, 100'000);
  EXPECT_EQ(pair.peek(2 * kSecond).remaining, 2);
}

TEST_F(TwoEverySecond, GivesBackWhatHasNotComeBackAnyway) {
  pair.hit(0, 5);
  const Header receipt = pair.receipt();
  EXPECT_TRUE(pair.refund(kSecond, receipt, 5));
  EXPECT_EQ(pair.peek(kSecond), (Shown{Status::ok, 5, 0, 0}));
  pair.hit(kSecond, 4);
  pair.refund(kSecond, receipt, 5);
  EXPECT_EQ(pair.record()->header[0], 1) << "three of the five";
}

// Ten tokens a second, ten at most and ten more on credit.
class InDebt : public ::testing::Test {
 protected:
  LonePair pair{bucket_of(10, 100'000, 1, 10)};
};

TEST_F(InDebt, LetsABigRequestGoAtOnceAndLaterOnesPay) {
  EXPECT_EQ(pair.hit(0, 20), (Shown{Status::ok, 0, 0, 2 * kSecond}));
  EXPECT_EQ(pair.hit(0), (Shown{Status::over, 0, kSecond, 2 * kSecond}));
  EXPECT_FALSE(pair.allows(kSecond - 1));
  EXPECT_TRUE(pair.allows(kSecond, 10)) << "out of debt, and ten on credit again";
  EXPECT_FALSE(pair.allows(kSecond, 11));
}

TEST_F(InDebt, RefusesEvenACostOfZero) {
  pair.hit(0, 15);
  EXPECT_EQ(pair.hit(0, 0), (Shown{Status::over, 0, 500'000, 1'500'000}));
  EXPECT_TRUE(pair.allows(500'000, 0));
}

TEST_F(InDebt, NeverAdmitsMoreThanBurstAndDebt) {
  EXPECT_EQ(pair.hit(0, 21), (Shown{Status::never, 10, kNever, 0}));
  EXPECT_EQ(pair.hit(0, 20).status, Status::ok);
}

TEST_F(InDebt, WaitsUntilItIsOutOfDebtAndTheCostFits) {
  pair.hit(0, 10);
  EXPECT_TRUE(pair.allows(0, 10)) << "not in debt yet";
  EXPECT_EQ(pair.peek(0, 11).retry_after, 100'000);
  EXPECT_EQ(pair.peek(0, 20).retry_after, kSecond);
}

TEST_F(InDebt, WithoutLimitTakesAnyRequestAtOnce) {
  constexpr std::int64_t kMost = (kExact - 1) / 100'000;
  pair.change(bucket_of(10, 100'000, 1, kMost - 10));
  EXPECT_EQ(pair.hit(0, kMost).status, Status::ok);
  EXPECT_EQ(pair.hit(0, 1).retry_after, (kMost - 10) * 100'000);
}

TEST(TokenBucket, GivesBackWhatHasNotComeBackAnyway) {
  LonePair pair(token_bucket(20, 10));
  pair.hit(0, 10);
  const Header receipt = pair.receipt();
  EXPECT_TRUE(pair.refund(400'000, receipt, 10));
  EXPECT_EQ(pair.peek(400'000).remaining, 20);
  pair.hit(400'000, 20);
  pair.refund(400'000, receipt, 10);
  EXPECT_EQ(pair.peek(400'000).remaining, 6) << "six of the ten had not come back";
  EXPECT_FALSE(pair.refund(kMinute, receipt, 10)) << "all has";
}

TEST(TokenBucket, GivesBackOnlyItsOwnChargeOfAllThatWasUsedThen) {
  LonePair pair(token_bucket(20, 10));
  pair.hit(0, 10);
  pair.hit(0, 3);
  EXPECT_TRUE(pair.refund(kSecond, pair.receipt(), 3));
  EXPECT_EQ(pair.peek(kSecond).remaining, 20);
}

TEST(TokenBucket, GivesBackInTheUnitsOfTheRecordRoundedDown) {
  LonePair pair(bucket_of(20, 10, 1));
  pair.hit(0, 2);
  const Header receipt = pair.receipt();
  pair.change(bucket_of(20, 3, 1));
  pair.hit(0, 5);
  EXPECT_EQ(pair.record()->header, (Header{21, 0, bucket::kUnknown}));
  EXPECT_EQ(pair.cells(), (std::vector<Cell>{{0, -3}}));
  pair.change(bucket_of(20, 10, 1));
  EXPECT_TRUE(pair.refund(5, receipt, 2));
  EXPECT_EQ(pair.record()->header, (Header{17, 0, bucket::kUnknown}))
      << "15 tenths are four thirds and a bit";
}

// One token a second, a hundred at most.
class Refunded : public ::testing::Test {
 protected:
  Header charged(Micros now, Cost cost) {
    EXPECT_EQ(pair.hit(now, cost).status, Status::ok);
    return pair.receipt();
  }
  std::int64_t used() const { return pair.record()->header[0] / kSecond; }

  LonePair pair{bucket_of(100, kSecond, 1)};
};

TEST_F(Refunded, GivesBackNothingThatAnEarlierRefundTook) {
  const Header first = charged(0, 50);
  const Header second = charged(0, 50);
  EXPECT_TRUE(pair.refund(0, first, 50));
  EXPECT_EQ(charged(50 * kSecond, 100)[0], 100 * kSecond);
  EXPECT_FALSE(pair.refund(50 * kSecond, second, 50));
}

TEST_F(Refunded, GivesAllBackOfAChargeThatCameAfterTheRefund) {
  pair.refund(0, charged(0, 40), 40);
  charged(0, 50);
  const Header last = charged(0, 20);
  EXPECT_TRUE(pair.refund(50 * kSecond, last, 20));
  EXPECT_EQ(pair.peek(50 * kSecond).remaining, 100);
}

TEST_F(Refunded, KeepsTheRecordAsLongAsWithoutTheRefund) {
  const Header first = charged(0, 100);
  const Micros gone_at = pair.record()->expires_at;
  pair.refund(0, first, 100);
  EXPECT_EQ(pair.peek(0).reset_after, 0);
  EXPECT_EQ(pair.hit(0, 1).reset_after, kSecond) << "until it is full";
  EXPECT_EQ(pair.record()->expires_at, gone_at);
}

TEST_F(Refunded, KnowsWhatIsGivenBackWhileItIsFull) {
  const Header first = charged(0, 30);
  const Header second = charged(0, 30);
  pair.refund(0, second, 30);
  const Header third = charged(40 * kSecond, 100);
  EXPECT_EQ(third, (Header{100 * kSecond, 40 * kSecond, 31 * kSecond})) << "full, so its phase began anew";
  EXPECT_FALSE(pair.refund(40 * kSecond, first, 30));
}

TEST_F(Refunded, GivesBackTheLeastOnceItsUnitsHaveChanged) {
  const Header before = charged(0, 20);
  pair.change(bucket_of(100, 2 * kSecond, 2));
  charged(0, 20);
  const Header after = charged(0, 20);
  pair.change(bucket_of(100, kSecond, 1));
  EXPECT_TRUE(pair.refund(15 * kSecond, before, 20));
  EXPECT_EQ(used(), 2 * 55);
  pair.change(bucket_of(100, 2 * kSecond, 2));
  EXPECT_TRUE(pair.refund(15 * kSecond, after, 20));
  EXPECT_EQ(used(), 2 * 50);
}

TEST_F(Refunded, GivesBackTheLeastOnceTheSumIsTooLargeToTell) {
  pair.change(bucket_of(1, kExact / 2, kExact / 4));
  const Header first = charged(0, 1);
  pair.refund(0, first, 1);
  EXPECT_EQ(pair.record()->header, (Header{0, 0, bucket::kUnknown}));
  charged(0, 1);
  EXPECT_EQ(pair.record()->header, (Header{kExact / 2, 0, bucket::kUnknown}));
  EXPECT_TRUE(pair.refund(1, pair.receipt(), 1));
  EXPECT_EQ(pair.record()->header[0], kExact / 4);
}

TEST(TokenBucket, IsBuiltFromNumbersInRangeOnly) {
  EXPECT_NO_THROW(made(1, 1, kExact - 1, kExact - 1));
  EXPECT_NO_THROW(made(kExact - 1, kMaxPeriod, 1, 1));
  EXPECT_THROW(made(-1, kSecond, 1, 1), InvalidLimit);
  EXPECT_THROW(made(kExact, kSecond, 1, 1), InvalidLimit);
  EXPECT_THROW(made(1, 0, 1, 1), InvalidLimit);
  EXPECT_THROW(made(1, kMaxPeriod + 1, 1, 1), InvalidLimit);
  EXPECT_THROW(made(1, kSecond, 0, 1), InvalidLimit);
  EXPECT_THROW(made(1, kSecond, kExact, 1), InvalidLimit);
  EXPECT_THROW(made(1, kSecond, 1, -1), InvalidLimit);
  EXPECT_THROW(made(1, kSecond, 1, kExact), InvalidLimit);
  EXPECT_THROW(made(2, kSecond, kExact / 2, 1), InvalidLimit) << "2^53 units in all";
  EXPECT_THROW(made(1, kSecond, 1, 0), InvalidLimit) << "a burst that would never come back";
  EXPECT_THROW(TokenBucket::make(std::to_array<std::int64_t>({1, kSecond, 1, 1})), InvalidLimit);
}

TEST(TokenBucket, HasIntervalsOfItsPeriodOrNoneAndAStartOnlyWithThem) {
  const auto make = [](Micros every, std::int64_t start, std::int64_t debt) {
    return TokenBucket::make(std::to_array<std::int64_t>({5, kSecond, 1, 2, every, start, debt}));
  };
  EXPECT_NO_THROW(make(1, 0, 0));
  EXPECT_NO_THROW(make(kSecond, 1, 3));
  EXPECT_THROW(make(2, 0, 0), InvalidLimit);
  EXPECT_THROW(make(1, 1, 0), InvalidLimit);
  EXPECT_THROW(make(kSecond, 2, 0), InvalidLimit);
  EXPECT_THROW(make(kSecond, 0, -1), InvalidLimit);
  EXPECT_NO_THROW(make(kSecond, 0, kExact - 6));
  EXPECT_THROW(make(kSecond, 0, kExact - 5), InvalidLimit);
}

}  // namespace
}  // namespace overlimit
