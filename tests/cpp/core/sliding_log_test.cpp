#include "overlimit/algorithms/sliding_log.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "../limits.hpp"
#include "lone_pair.hpp"

namespace overlimit {
namespace {

using namespace testing;

// Three in ten seconds, all spent.
class ThreeEntries : public ::testing::Test {
 protected:
  void SetUp() override {
    pair.hit(100);
    pair.hit(200);
    pair.hit(5 * kSecond);
  }
  LonePair pair{sliding_log(3, 10 * kSecond)};
};

TEST_F(ThreeEntries, AreKeptOldestFirstTheNewestInTheHeader) {
  EXPECT_EQ(pair.cells(), (std::vector<Cell>{{100, 1}, {200, 1}}));
  EXPECT_EQ(pair.record()->header, (Header{5 * kSecond, 1, 3}));
  pair.hit(10 * kSecond + 150);
  EXPECT_EQ(pair.cells(), (std::vector<Cell>{{200, 1}, {5 * kSecond, 1}}));
}

TEST_F(ThreeEntries, AreJudgedAtTheNewestWhenTheClockGoesBack) {
  EXPECT_EQ(pair.hit(0), (Shown{Status::over, 0, 5 * kSecond + 100, 10 * kSecond}));
  pair.change(sliding_log(4, 10 * kSecond));
  pair.hit(0);
  EXPECT_EQ(pair.record()->header, (Header{5 * kSecond, 2, 4})) << "one entry per instant";
}

TEST_F(ThreeEntries, AreRemovedByARefund) {
  EXPECT_TRUE(pair.refund(6 * kSecond, {200, 1, 2}));
  EXPECT_EQ(pair.cells(), (std::vector<Cell>{{100, 1}}));
  EXPECT_EQ(pair.peek(6 * kSecond), (Shown{Status::ok, 1, 0, 9 * kSecond}));
  EXPECT_FALSE(pair.refund(6 * kSecond, {200, 1, 2})) << "there is nothing left of it";
}

TEST_F(ThreeEntries, StayWhenTheNewestIsRefunded) {
  EXPECT_TRUE(pair.refund(6 * kSecond, pair.receipt()));
  EXPECT_EQ(pair.record()->header, (Header{5 * kSecond, 0, 2}));
  EXPECT_EQ(pair.peek(6 * kSecond, 1), (Shown{Status::ok, 1, 0, 9 * kSecond})) << "the newest is a time";
  EXPECT_EQ(pair.peek(6 * kSecond, 2), (Shown{Status::over, 1, 4 * kSecond + 100, 9 * kSecond}));
  pair.hit(7 * kSecond);
  EXPECT_EQ(pair.cells(), (std::vector<Cell>{{100, 1}, {200, 1}})) << "an empty entry is not kept";
}

TEST(SlidingLog, GivesBackPartOfAnEntryOfSeveralCharges) {
  LonePair pair(sliding_log(9, kMinute));
  pair.hit(5, 2);
  pair.hit(5, 3);
  const Header receipt = pair.receipt();
  pair.hit(6);
  EXPECT_TRUE(pair.refund(7, receipt, 3));
  EXPECT_EQ(pair.cells(), (std::vector<Cell>{{5, 2}}));
  EXPECT_EQ(pair.peek(7).remaining, 6);
  EXPECT_TRUE(pair.refund(7, receipt, 3)) << "as two processes do that have forked in between";
  EXPECT_TRUE(pair.cells().empty());
  EXPECT_EQ(pair.peek(7).remaining, 8) << "no more than the entry has left";
}

TEST(SlidingLog, KeepsNoMoreEntriesThanItsLimit) {
  LonePair pair(sliding_log(10'000, kSecond));
  for (Micros now = 0; now < 30'000; ++now) pair.hit(now);
  EXPECT_EQ(pair.cells().size(), 9'999U);
  EXPECT_EQ(pair.peek(30'000, 1).retry_after, kSecond - 30'000);
}

}  // namespace
}  // namespace overlimit
