#include "overlimit/algorithms/sliding_window_counter.hpp"

#include <gtest/gtest.h>

#include <random>

#include "../limits.hpp"
#include "lone_pair.hpp"
#include "overlimit/errors.hpp"

namespace overlimit {
namespace {

using testing::kMinute;
using testing::LonePair;
using testing::Shown;
using testing::sliding_window_counter;

// Ten per thousand microseconds; eight were spent in the window at 4000.
class TenPerThousand : public ::testing::Test {
 protected:
  void SetUp() override { pair.hit(4'100, 8); }
  LonePair pair{sliding_window_counter(10, 1'000)};
};

TEST_F(TenPerThousand, CountsTheCurrentWindowInFull) {
  EXPECT_EQ(pair.peek(4'999), (Shown{Status::ok, 2, 0, 1'001}));
  EXPECT_TRUE(pair.allows(4'999, 2));
  EXPECT_FALSE(pair.allows(4'999, 3));
}

TEST_F(TenPerThousand, CountsThePreviousOneForThePartThatIsStillCovered) {
  EXPECT_EQ(pair.peek(5'000), (Shown{Status::ok, 2, 0, 1'000}));
  EXPECT_EQ(pair.peek(5'124).remaining, 2) << "8 * 876 / 1000 is 7.008";
  EXPECT_EQ(pair.peek(5'125).remaining, 3) << "and 8 * 875 / 1000 is 7";
  EXPECT_EQ(pair.peek(5'999).remaining, 9);
  EXPECT_EQ(pair.peek(6'000), (Shown{Status::ok, 10, 0, 0}));
}

TEST_F(TenPerThousand, TellsToTheMicrosecondWhenACostFits) {
  EXPECT_EQ(pair.peek(4'999, 3).retry_after, 5'125 - 4'999);
  EXPECT_EQ(pair.peek(5'100, 5).retry_after, 5'375 - 5'100);
  EXPECT_FALSE(pair.allows(5'374, 5));
  EXPECT_TRUE(pair.allows(5'375, 5));
}

TEST_F(TenPerThousand, MayFitNoEarlierThanWhenBothWindowsAreGone) {
  EXPECT_EQ(pair.peek(4'100, 10), (Shown{Status::over, 2, 1'900, 1'900}));
  EXPECT_FALSE(pair.allows(5'999, 10));
  EXPECT_TRUE(pair.allows(6'000, 10));
}

TEST_F(TenPerThousand, MayFitInTheWindowAfterTheNext) {
  pair.hit(5'999, 9);
  EXPECT_EQ(pair.record()->header, (Header{5'000, 8, 9}));
  EXPECT_EQ(pair.peek(5'999, 4).retry_after, 334 + 1) << "9 * 666 / 1000 is 5.994, at 6334";
  EXPECT_FALSE(pair.allows(6'333, 4));
  EXPECT_TRUE(pair.allows(6'334, 4));
}

TEST_F(TenPerThousand, ForgetsThePreviousWindowAfterAGap) {
  pair.hit(7'500);
  EXPECT_EQ(pair.record()->header, (Header{7'000, 0, 1}));
}

TEST_F(TenPerThousand, IsJudgedNoEarlierThanItsWindow) {
  EXPECT_EQ(pair.examined(0, 1).now, 4'000);
  EXPECT_EQ(pair.peek(0, 3).retry_after, 5'125 - 4'000);
}

TEST_F(TenPerThousand, RefusesEvenACostOfZeroUnderALoweredLimit) {
  pair.change(sliding_window_counter(7, 1'000));
  EXPECT_EQ(pair.hit(4'200, 0), (Shown{Status::over, 0, 5'125 - 4'200, 1'800}));
  EXPECT_TRUE(pair.allows(5'125, 0));
}

TEST_F(TenPerThousand, IsRefundedInTheWindowThatWasCharged) {
  const Header receipt = pair.receipt();
  pair.hit(4'200);
  EXPECT_TRUE(pair.refund(4'300, receipt, 8));
  EXPECT_EQ(pair.record()->header, (Header{4'000, 0, 1}));
  pair.hit(4'300, 2);
  EXPECT_TRUE(pair.refund(4'300, receipt, 8));
  EXPECT_EQ(pair.record()->header, (Header{4'000, 0, 0})) << "nothing goes below 0";
}

TEST_F(TenPerThousand, IsRefundedWhenThatWindowIsThePreviousOne) {
  const Header receipt = pair.receipt();
  pair.hit(5'900, 2);
  EXPECT_TRUE(pair.refund(5'900, receipt, 5));
  EXPECT_EQ(pair.record()->header, (Header{5'000, 3, 2}));
  pair.hit(6'999, 2);
  EXPECT_FALSE(pair.refund(6'999, receipt, 5));
  EXPECT_EQ(pair.record()->header, (Header{6'000, 2, 2}));
}

TEST_F(TenPerThousand, ResetsWithThePreviousWindowWhenTheCurrentIsRefunded) {
  pair.hit(5'900, 2);
  EXPECT_EQ(pair.peek(5'900).reset_after, 1'100);
  EXPECT_TRUE(pair.refund(5'900, pair.receipt(), 2));
  EXPECT_EQ(pair.peek(5'900).reset_after, 100);
}

TEST(SlidingWindowCounter, NeverAdmitsACostAboveItsLimit) {
  LonePair pair(sliding_window_counter(3, kMinute));
  EXPECT_EQ(pair.hit(0, 4), (Shown{Status::never, 3, kNever, 0}));
  EXPECT_EQ(pair.hit(0, INT64_MAX).status, Status::never);
  EXPECT_EQ(pair.hit(0, 3).status, Status::ok);
}

TEST(SlidingWindowCounter, RetriesExactlyHoweverLargeItsNumbers) {
  std::mt19937_64 random(6);
  for (int round = 0; round < 3'000; ++round) {
    const auto period = Micros(1 + random() % (round % 2 == 0 ? kMaxPeriod : 100'000));
    const auto limit = std::int64_t(1 + random() % (round % 3 == 0 ? kExact - 1 : 1'000));
    LonePair pair(sliding_window_counter(limit, period));
    const Micros start = Micros(random() % (kMaxTime / 2)) / period * period;
    pair.hit(start, 1 + Cost(random() % std::uint64_t(limit)));
    const Micros now = start + Micros(random() % std::uint64_t(2 * period));
    const auto cost = Cost(1 + random() % std::uint64_t(limit));
    const Shown shown = pair.hit(now, cost);
    if (shown.status == Status::ok) continue;
    ASSERT_TRUE(pair.allows(now + shown.retry_after, cost)) << round;
    ASSERT_FALSE(pair.allows(now + shown.retry_after - 1, cost)) << round;
  }
}

TEST(SlidingWindowCounter, WorksAtTheEndOfTime) {
  LonePair pair(sliding_window_counter(kExact - 1, kMaxPeriod));
  const Shown shown = pair.hit(kMaxTime - 1, kExact - 1);
  EXPECT_EQ(shown.status, Status::ok);
  EXPECT_GT(shown.reset_after, kMaxPeriod);
  EXPECT_LT(pair.record()->expires_at, kExact);
}

TEST(SlidingWindowCounter, TakesAStateThatStartsNowhereForNone) {
  EXPECT_EQ(time_of(SlidingWindowCounter{3, 1'000}, {4'001, 1, 1}), kMaxTime);
  EXPECT_EQ(time_of(SlidingWindowCounter{3, 1'000}, {4'000, 1, 1}), 4'000);
}

TEST(SlidingWindowCounter, IsBuiltFromNumbersInRangeOnly) {
  EXPECT_NO_THROW(sliding_window_counter(0, 1));
  EXPECT_NO_THROW(sliding_window_counter(kExact - 1, kMaxPeriod));
  EXPECT_THROW(sliding_window_counter(-1, kMinute), InvalidLimit);
  EXPECT_THROW(sliding_window_counter(kExact, kMinute), InvalidLimit);
  EXPECT_THROW(sliding_window_counter(1, 0), InvalidLimit);
  EXPECT_THROW(sliding_window_counter(1, kMaxPeriod + 1), InvalidLimit);
  EXPECT_THROW(SlidingWindowCounter::make(std::to_array<std::int64_t>({1})), InvalidLimit);
}

}  // namespace
}  // namespace overlimit
