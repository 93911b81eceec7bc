#include "overlimit/algorithms/sliding_window.hpp"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "../limits.hpp"
#include "lone_pair.hpp"
#include "overlimit/errors.hpp"

namespace overlimit {
namespace {

using testing::kMinute;
using testing::kSecond;
using testing::LonePair;
using testing::Shown;
using testing::sliding_window;

SlidingWindow made(std::int64_t limit, Micros period, Micros precision) {
  return SlidingWindow::make(std::to_array({limit, period, precision}));
}

// Three in any ten seconds, in blocks of one second.
class ThreeInTenSeconds : public ::testing::Test {
 protected:
  void SetUp() override {
    pair.hit(500'000);
    pair.hit(5'200'000);
    pair.hit(9'999'999);
  }
  LonePair pair{sliding_window(3, 10 * kSecond, kSecond)};
};

TEST_F(ThreeInTenSeconds, CountsTheCurrentBlockAndAllBlocksOfOnePeriodBeforeIt) {
  EXPECT_FALSE(pair.allows(10'000'000));
  EXPECT_FALSE(pair.allows(10'999'999));
  EXPECT_TRUE(pair.allows(11'000'000));
}

TEST_F(ThreeInTenSeconds, TellsToTheMicrosecondWhenTheOldestBlockLeaves) {
  EXPECT_EQ(pair.peek(10'000'000, 1).retry_after, 1'000'000);
  EXPECT_EQ(pair.peek(10'999'999, 1).retry_after, 1);
}

TEST_F(ThreeInTenSeconds, TellsWhenSoManyBlocksHaveLeftThatTheCostFits) {
  EXPECT_EQ(pair.peek(10'500'000, 2).retry_after, 16'000'000 - 10'500'000);
  EXPECT_EQ(pair.peek(10'500'000, 3).retry_after, 20'000'000 - 10'500'000);
  EXPECT_FALSE(pair.allows(15'999'999, 2));
  EXPECT_TRUE(pair.allows(16'000'000, 2));
  EXPECT_FALSE(pair.allows(19'999'999, 3));
  EXPECT_TRUE(pair.allows(20'000'000, 3));
}

TEST_F(ThreeInTenSeconds, IsBackToNeverSeenWhenTheNewestBlockHasLeft) {
  EXPECT_EQ(pair.peek(9'999'999), (Shown{Status::ok, 0, 0, 10'000'001}));
  EXPECT_EQ(pair.peek(19'999'999), (Shown{Status::ok, 2, 0, 1}));
  EXPECT_EQ(pair.peek(20'000'000), (Shown{Status::ok, 3, 0, 0}));
}

TEST_F(ThreeInTenSeconds, RefusesWithoutWriting) {
  const Header before = pair.record()->header;
  EXPECT_EQ(pair.hit(10'000'000), (Shown{Status::over, 0, 1'000'000, 10'000'000}));
  EXPECT_EQ(pair.record()->header, before);
  EXPECT_EQ(pair.cells(), (std::vector<Cell>{{0, 1}, {5, 1}}));
}

TEST_F(ThreeInTenSeconds, DropsTheBlocksThatHaveLeftWhenItIsChargedNext) {
  EXPECT_EQ(pair.hit(16'000'000), (Shown{Status::ok, 1, 0, 11'000'000}));
  EXPECT_EQ(pair.cells(), (std::vector<Cell>{{9, 1}}));
  EXPECT_EQ(pair.record()->header, (Header{16, 1, 2}));
}

TEST_F(ThreeInTenSeconds, StartsAnewAfterALongTime) {
  EXPECT_EQ(pair.hit(kMinute, 2), (Shown{Status::ok, 1, 0, 11'000'000}));
  EXPECT_TRUE(pair.cells().empty());
  EXPECT_EQ(pair.record()->header, (Header{60, 2, 2}));
}

TEST_F(ThreeInTenSeconds, CountsInItsNewestBlockWhenTheClockGoesBack) {
  EXPECT_FALSE(pair.allows(0));
  EXPECT_EQ(pair.peek(0, 1).retry_after, 2'000'000) << "from the start of the newest block";
  pair.change(sliding_window(4, 10 * kSecond, kSecond));
  EXPECT_EQ(pair.hit(0), (Shown{Status::ok, 0, 0, 11'000'000}));
  EXPECT_EQ(pair.record()->header, (Header{9, 2, 4}));
}

TEST_F(ThreeInTenSeconds, ALoweredLimitRefusesEvenACostOfZero) {
  pair.change(sliding_window(2, 10 * kSecond, kSecond));
  EXPECT_EQ(pair.hit(10'000'000, 0), (Shown{Status::over, 0, 1'000'000, 10'000'000}));
  EXPECT_EQ(pair.hit(11'000'000, 0), (Shown{Status::ok, 0, 0, 9'000'000}));
}

TEST_F(ThreeInTenSeconds, GivesBackToTheBlockThatWasCharged) {
  EXPECT_TRUE(pair.refund(10'000'000, {5, 1, 2}));
  EXPECT_EQ(pair.cells(), (std::vector<Cell>{{0, 1}})) << "an empty block goes";
  EXPECT_EQ(pair.peek(10'000'000), (Shown{Status::ok, 1, 0, 10'000'000}));
  EXPECT_FALSE(pair.refund(10'000'000, {5, 1, 2}));
}

TEST_F(ThreeInTenSeconds, ResetsWithTheNewestBlockThatStillCounts) {
  EXPECT_TRUE(pair.refund(10'000'000, pair.receipt()));
  EXPECT_EQ(pair.record()->header, (Header{9, 0, 2}));
  EXPECT_EQ(pair.peek(10'000'000).reset_after, 6'000'000);
  EXPECT_EQ(pair.peek(10'000'000, 2).retry_after, 1'000'000);
  EXPECT_EQ(pair.peek(10'000'000, 3).retry_after, 6'000'000);
}

TEST_F(ThreeInTenSeconds, IsAsNeverSeenOnceAllIsGivenBack) {
  for (const std::int64_t block : {9, 5, 0}) EXPECT_TRUE(pair.refund(10'000'000, {block, 1, 1}));
  EXPECT_EQ(pair.peek(10'000'000), (Shown{Status::ok, 3, 0, 0}));
}

TEST(SlidingWindow, ChargesOfOneBlockShareACounter) {
  LonePair pair(sliding_window(9, 10 * kSecond, kSecond));
  pair.hit(3'000'000, 2);
  pair.hit(3'999'999, 3);
  EXPECT_TRUE(pair.cells().empty());
  EXPECT_EQ(pair.record()->header, (Header{3, 5, 5}));
}

TEST(SlidingWindow, OneBlockMayBeTheWholePeriod) {
  LonePair pair(sliding_window(1, kMinute, kMinute));
  EXPECT_EQ(pair.hit(kMinute - 1), (Shown{Status::ok, 0, 0, kMinute + 1}));
  EXPECT_EQ(pair.peek(kMinute - 1, 1).retry_after, kMinute + 1);
  EXPECT_FALSE(pair.allows(2 * kMinute - 1));
  EXPECT_TRUE(pair.allows(2 * kMinute));
}

TEST(SlidingWindow, KeepsNoMoreCellsThanItHasBlocks) {
  LonePair pair(sliding_window(kExact - 1, 10 * kSecond, kSecond));
  for (Micros now = 0; now < kMinute; now += kSecond / 2) {
    ASSERT_EQ(pair.hit(now).status, Status::ok);
    ASSERT_LE(pair.cells().size(), 10U);
  }
  EXPECT_EQ(pair.cells().size(), 10U);
}

TEST(SlidingWindow, WorksAtTheEndOfTime) {
  LonePair pair(sliding_window(1, kMaxPeriod, kMaxPeriod));
  const Shown shown = pair.hit(kMaxTime - 1);
  EXPECT_EQ(shown.status, Status::ok);
  EXPECT_GE(shown.reset_after, kMaxPeriod);
  EXPECT_LT(pair.record()->expires_at, kExact);
}

TEST(SlidingWindow, AdmitsNoMoreThanItsLimitInAnyIntervalOfOnePeriod) {
  std::mt19937 random(2);
  LonePair pair(sliding_window(5, 1000, 250));
  std::vector<Micros> admitted;
  for (Micros now = 0; now < 200'000; now += Micros(random() % 60)) {
    if (pair.hit(now).status == Status::ok) admitted.push_back(now);
  }
  for (std::size_t i = 5; i < admitted.size(); ++i) ASSERT_GT(admitted[i] - admitted[i - 5], 1000);
  EXPECT_GE(admitted.size(), 5 * 200'000U / 1250 - 5) << "and grants it once per period and block";
}

TEST(SlidingWindow, PicksTheFinestOfAtMostFiftyBlocksThatDivideThePeriod) {
  EXPECT_EQ(made(1, kMinute, 0).precision, 1'200'000);
  EXPECT_EQ(made(1, kMinute, 0).blocks, 50);
  EXPECT_EQ(made(1, 49, 0).blocks, 49);
  EXPECT_EQ(made(1, 51, 0).blocks, 17);
  EXPECT_EQ(made(1, 53, 0).blocks, 1);
  EXPECT_EQ(made(1, 1, 0).blocks, 1);
}

TEST(SlidingWindow, TakesUpTo4096Blocks) {
  EXPECT_EQ(made(1, 4096, 1).blocks, 4096);
  EXPECT_EQ(made(1, 4096, 1).max_cells(), 4096);
  EXPECT_THROW(made(1, 4097, 1), InvalidLimit);
}

TEST(SlidingWindow, IsBuiltFromNumbersInRangeOnly) {
  EXPECT_NO_THROW(made(0, 1, 1));
  EXPECT_NO_THROW(made(kExact - 1, kMaxPeriod, kMaxPeriod));
  EXPECT_THROW(made(-1, kMinute, 0), InvalidLimit);
  EXPECT_THROW(made(kExact, kMinute, 0), InvalidLimit);
  EXPECT_THROW(made(1, 0, 0), InvalidLimit);
  EXPECT_THROW(made(1, kMaxPeriod + 1, 0), InvalidLimit);
  EXPECT_THROW(made(1, 100, 30), InvalidLimit);
  EXPECT_THROW(made(1, 100, 200), InvalidLimit);
  EXPECT_THROW(made(1, 100, -1), InvalidLimit);
  EXPECT_THROW(SlidingWindow::make(std::to_array<std::int64_t>({1, 100})), InvalidLimit);
}

}  // namespace
}  // namespace overlimit
