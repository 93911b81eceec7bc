#include "overlimit/algorithms/leaky_bucket.hpp"

#include <gtest/gtest.h>

#include "../limits.hpp"
#include "lone_pair.hpp"
#include "overlimit/errors.hpp"

namespace overlimit {
namespace {

using testing::kMinute;
using testing::kSecond;
using testing::leaky_bucket;
using testing::LonePair;
using testing::Shown;

// Two go every second, four may wait.
class TwoASecond : public ::testing::Test {
 protected:
  LonePair pair{leaky_bucket(2, kSecond, 4)};
};

TEST_F(TwoASecond, LetsItsRateGoAtOnceAndTheRestWait) {
  EXPECT_EQ(pair.hit(10, 2), (Shown{Status::ok, 4, 0, kSecond}));
  EXPECT_EQ(pair.hit(20), (Shown{Status::ok, 3, 0, 2 * kSecond - 10, kSecond - 10}));
  EXPECT_EQ(pair.hit(30), (Shown{Status::ok, 2, 0, 2 * kSecond - 20, kSecond - 20}));
  EXPECT_EQ(pair.hit(30, 2), (Shown{Status::ok, 0, 0, 3 * kSecond - 20, 2 * kSecond - 20}));
  EXPECT_EQ(pair.hit(30), (Shown{Status::over, 0, kSecond - 20, 3 * kSecond - 20, 2 * kSecond}));
}

TEST_F(TwoASecond, DrainsInWholePeriodsFromItsFirstRequestOn) {
  pair.hit(10, 6);
  EXPECT_EQ(pair.peek(kSecond + 9).remaining, 0);
  EXPECT_EQ(pair.peek(kSecond + 10).remaining, 2);
  EXPECT_EQ(pair.peek(2 * kSecond + 9).remaining, 2);
  EXPECT_EQ(pair.peek(2 * kSecond + 10).remaining, 4);
  EXPECT_EQ(pair.peek(3 * kSecond + 9), (Shown{Status::ok, 4, 0, 1}));
  EXPECT_EQ(pair.peek(3 * kSecond + 10), (Shown{Status::ok, 6, 0, 0}));
}

TEST_F(TwoASecond, KeepsItsPhaseWhileItIsBusyAndStartsAnewWhenIdle) {
  pair.hit(10, 3);
  pair.hit(kSecond + 500);
  EXPECT_EQ(pair.record()->header, (Header{kSecond + 10, 2, 0}));
  pair.hit(2 * kSecond + 10);
  EXPECT_EQ(pair.record()->header, (Header{2 * kSecond + 10, 1, 0}));
  pair.hit(kMinute + 7);
  EXPECT_EQ(pair.record()->header, (Header{kMinute + 7, 1, 0}));
}

TEST_F(TwoASecond, WaitsForThePlacesOfACost) {
  pair.hit(0, 6);
  EXPECT_EQ(pair.peek(0, 2).retry_after, kSecond);
  EXPECT_EQ(pair.peek(0, 3).retry_after, 2 * kSecond);
  EXPECT_EQ(pair.peek(0, 6).retry_after, 3 * kSecond);
  EXPECT_FALSE(pair.allows(2 * kSecond - 1, 3));
  EXPECT_TRUE(pair.allows(2 * kSecond, 3));
}

TEST_F(TwoASecond, NeverAdmitsACostAboveRateAndCapacity) {
  EXPECT_EQ(pair.hit(0, 7), (Shown{Status::never, 6, kNever, 0}));
  EXPECT_EQ(pair.hit(0, INT64_MAX).status, Status::never);
  EXPECT_EQ(pair.hit(0, 6).delay, 2 * kSecond);
}

TEST_F(TwoASecond, RefusesWhoHasLessPatienceThanTheDelay) {
  pair.hit(0, 2);
  EXPECT_EQ(pair.hit(100, 3, 2 * kSecond - 101),
            (Shown{Status::over, 4, 1, kSecond - 100, 2 * kSecond - 101}));
  EXPECT_EQ(pair.hit(100, 3, kSecond).retry_after, kSecond - 100);
  EXPECT_EQ(pair.hit(100, 3, 2 * kSecond - 100).delay, 2 * kSecond - 100);
}

TEST_F(TwoASecond, TellsTheImpatientToComeBackNoLaterThanWhenTheRecordIsGone) {
  pair.hit(0, 2);
  EXPECT_EQ(pair.hit(0, 3, 0), (Shown{Status::over, 4, kSecond, kSecond, kSecond}));
  pair.hit(0, 3);
  pair.expire_at(kSecond);
  EXPECT_EQ(pair.peek(0, 4), (Shown{Status::over, 1, kSecond, kSecond, kSecond}));
  EXPECT_EQ(pair.hit(0, 1, kSecond), (Shown{Status::over, 1, kSecond, kSecond, 0}));
}

TEST_F(TwoASecond, AdmitsTheImpatientWhoHasNotToWait) {
  EXPECT_EQ(pair.hit(0, 2, 0).status, Status::ok);
  EXPECT_EQ(pair.hit(0, 1, 0).retry_after, kSecond);
  EXPECT_EQ(pair.hit(kSecond, 1, 0).status, Status::ok);
}

TEST_F(TwoASecond, NeitherMintsNorBurnsWhenTheClockGoesBack) {
  pair.hit(kSecond, 5);
  EXPECT_EQ(pair.peek(0, 2), (Shown{Status::over, 1, kSecond, 3 * kSecond, 2 * kSecond}));
  EXPECT_EQ(pair.hit(0).delay, 2 * kSecond);
}

TEST_F(TwoASecond, RefusesEvenACostOfZeroUnderALoweredCapacity) {
  pair.hit(0, 6);
  pair.change(leaky_bucket(2, kSecond, 1));
  EXPECT_EQ(pair.hit(0, 0), (Shown{Status::over, 0, 2 * kSecond, 3 * kSecond}));
  EXPECT_TRUE(pair.allows(2 * kSecond, 0));
}

TEST_F(TwoASecond, GivesBackWhatIsStillInTheQueue) {
  pair.hit(0, 2);
  pair.hit(0, 3);
  const Header receipt = pair.receipt();
  EXPECT_TRUE(pair.refund(kSecond, receipt, 3));
  EXPECT_EQ(pair.record()->header[1], 2) << "those that went, while three were left of that charge";
  EXPECT_EQ(pair.peek(kSecond).remaining, 6);
}

TEST_F(TwoASecond, GivesBackNothingThatHasGone) {
  pair.hit(0, 4);
  const Header receipt = pair.receipt();
  pair.hit(2 * kSecond, 4);
  pair.refund(2 * kSecond, receipt, 4);
  EXPECT_EQ(pair.peek(2 * kSecond).remaining, 2);
}

TEST_F(TwoASecond, GivesBackPartOfWhatHasPartlyGone) {
  pair.hit(0, 6);
  const Header receipt = pair.receipt();
  pair.hit(2 * kSecond, 3);
  pair.refund(2 * kSecond, receipt, 6);
  EXPECT_EQ(pair.peek(2 * kSecond).remaining, 3) << "two of the six were still waiting";
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

TEST(LeakyBucket, WithoutCapacityIsAWindowThatDrains) {
  LonePair pair(leaky_bucket(3, kSecond, 0));
  EXPECT_EQ(pair.hit(0, 3), (Shown{Status::ok, 0, 0, kSecond}));
  EXPECT_EQ(pair.hit(1), (Shown{Status::over, 0, kSecond - 1, kSecond - 1}));
}

TEST(LeakyBucket, WithoutARateRefusesEverythingButNothing) {
  LonePair pair(leaky_bucket(0, kSecond, 0));
  EXPECT_EQ(pair.hit(0, 1), (Shown{Status::never, 0, kNever, 0}));
  EXPECT_EQ(pair.hit(0, 0), (Shown{Status::ok, 0, 0, 0}));
}

TEST(LeakyBucket, WorksAtTheEndOfTime) {
  LonePair pair(leaky_bucket(1, kMaxPeriod, 100));
  EXPECT_EQ(pair.hit(kMaxTime - 1).reset_after, kMaxPeriod);
  EXPECT_EQ(pair.hit(kMaxTime - 1, 90).status, Status::ok);
  EXPECT_LT(pair.record()->expires_at, kExact);
}

TEST(LeakyBucket, IsBuiltFromNumbersInRangeOnly) {
  EXPECT_NO_THROW(leaky_bucket(1, 1, kExact - 2));
  EXPECT_NO_THROW(leaky_bucket(kExact - 1, kMaxPeriod, 0));
  EXPECT_THROW(leaky_bucket(-1, kSecond, 1), InvalidLimit);
  EXPECT_THROW(leaky_bucket(kExact, kSecond, 0), InvalidLimit);
  EXPECT_THROW(leaky_bucket(1, 0, 1), InvalidLimit);
  EXPECT_THROW(leaky_bucket(1, kMaxPeriod + 1, 1), InvalidLimit);
  EXPECT_THROW(leaky_bucket(1, kSecond, -1), InvalidLimit);
  EXPECT_THROW(leaky_bucket(2, kSecond, kExact - 2), InvalidLimit);
  EXPECT_THROW(leaky_bucket(0, kSecond, 1), InvalidLimit) << "a queue that would never drain";
  EXPECT_THROW(LeakyBucket::make(std::to_array<std::int64_t>({1, kSecond})), InvalidLimit);
}

}  // namespace
}  // namespace overlimit
