#include "overlimit/algorithms/leaky_bucket.hpp"

#include <gtest/gtest.h>

#include "../limits.hpp"
#include "lone_pair.hpp"

namespace overlimit {
namespace {

using namespace testing;

// Two go every second, four may wait.
class TwoASecond : public ::testing::Test {
 protected:
  LonePair pair{leaky_bucket(2, kSecond, 4)};
};

TEST_F(TwoASecond, TellsTheImpatientToComeBackNoLaterThanWhenTheRecordIsGone) {
  pair.hit(0, 2);
  EXPECT_EQ(pair.hit(0, 3, 0), (Shown{Status::over, 4, kSecond, kSecond, kSecond}));
  pair.hit(0, 3);
  pair.expire_at(kSecond);
  EXPECT_EQ(pair.peek(0, 4), (Shown{Status::over, 1, kSecond, kSecond, kSecond}));
  EXPECT_EQ(pair.hit(0, 1, kSecond), (Shown{Status::over, 1, kSecond, kSecond, 0}));
}

TEST_F(TwoASecond, GivesBackNothingThatAnEarlierRefundTook) {
  pair.hit(0, 3);
  const Header first = pair.receipt();
  pair.hit(0, 3);
  const Header second = pair.receipt();
  EXPECT_TRUE(pair.refund(0, first, 3));
  pair.hit(kSecond, 3);
  EXPECT_TRUE(pair.refund(kSecond, second, 3));
  EXPECT_EQ(pair.record()->header, (Header{kSecond, 3, 4})) << "two of three drained, and one came back";
}

}  // namespace
}  // namespace overlimit
