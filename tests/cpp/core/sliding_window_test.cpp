#include "overlimit/algorithms/sliding_window.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "../limits.hpp"
#include "lone_pair.hpp"

namespace overlimit {
namespace {

using namespace testing;

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

TEST_F(ThreeInTenSeconds, DropsTheBlocksThatHaveLeftWhenItIsChargedNext) {
  EXPECT_EQ(pair.hit(16'000'000), (Shown{Status::ok, 1, 0, 11'000'000}));
  EXPECT_EQ(pair.cells(), (std::vector<Cell>{{9, 1}}));
  EXPECT_EQ(pair.record()->header, (Header{16, 1, 2}));
}

TEST_F(ThreeInTenSeconds, ResetsWithTheNewestBlockThatStillCounts) {
  EXPECT_TRUE(pair.refund(10'000'000, pair.receipt()));
  EXPECT_EQ(pair.record()->header, (Header{9, 0, 2}));
  EXPECT_EQ(pair.peek(10'000'000).reset_after, 6'000'000);
  EXPECT_EQ(pair.peek(10'000'000, 2).retry_after, 1'000'000);
  EXPECT_EQ(pair.peek(10'000'000, 3).retry_after, 6'000'000);
}

TEST(SlidingWindow, ChargesOfOneBlockShareACounter) {
  LonePair pair(sliding_window(9, 10 * kSecond, kSecond));
  pair.hit(3'000'000, 2);
  pair.hit(3'999'999, 3);
  EXPECT_TRUE(pair.cells().empty());
  EXPECT_EQ(pair.record()->header, (Header{3, 5, 5}));
}

TEST(SlidingWindow, KeepsNoMoreCellsThanItHasBlocks) {
  LonePair pair(sliding_window(kExact - 1, 10 * kSecond, kSecond));
  for (Micros now = 0; now < kMinute; now += kSecond / 2) {
    ASSERT_EQ(pair.hit(now).status, Status::ok);
    ASSERT_LE(pair.cells().size(), 10U);
  }
  EXPECT_EQ(pair.cells().size(), 10U);
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
}

}  // namespace
}  // namespace overlimit
