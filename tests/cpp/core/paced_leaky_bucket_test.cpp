#include "overlimit/algorithms/paced_leaky_bucket.hpp"

#include <gtest/gtest.h>

#include "../limits.hpp"
#include "lone_pair.hpp"

namespace overlimit {
namespace {

using namespace testing;

// Three go every second, a third of a second apart; two go at once, four may wait.
class ThreeASecond : public ::testing::Test {
 protected:
  LonePair pair{paced_bucket(3, kSecond, 4, 2)};
};

TEST_F(ThreeASecond, SpacesThoseBehindTheBurst) {
  EXPECT_EQ(pair.hit(0, 2), (Shown{Status::ok, 4, 0, 666'667, 0}));
  EXPECT_EQ(pair.hit(0, 1), (Shown{Status::ok, 3, 0, kSecond, 333'334}));
  EXPECT_EQ(pair.hit(0, 3), (Shown{Status::ok, 0, 0, 2 * kSecond, 1'333'334}));
  EXPECT_EQ(pair.hit(0, 1).retry_after, 333'334);
  EXPECT_EQ(pair.hit(333'334, 1), (Shown{Status::ok, 0, 0, 2 * kSecond, 1'333'333}));
}

TEST_F(ThreeASecond, TellsTheImpatientWhenTheirWaitIsShortEnough) {
  pair.hit(0, 3);
  const Shown refused = pair.hit(0, 1, 333'333);
  EXPECT_EQ(refused.status, Status::over);
  EXPECT_EQ(refused.retry_after, 333'334);
  EXPECT_TRUE(pair.hit(333'334, 1, 333'333).status == Status::ok);
}

TEST(APacedBucket, ReckonsTheDelayInItsOwnUnitsWhateverRateWroteTheRecord) {
  LonePair pair{paced_bucket(7, 400, 3, 2)};
  pair.hit(0, 5);
  pair.change(paced_bucket(2, 400, 5, 1));
  const Shown refused = pair.hit(0, 1, 999);
  EXPECT_EQ(refused.status, Status::over);
  EXPECT_EQ(refused.retry_after, 1);
  EXPECT_EQ(pair.hit(0, 1, 1'000), (Shown{Status::ok, 0, 0, 1'200, 1'000}));
}

}  // namespace
}  // namespace overlimit
