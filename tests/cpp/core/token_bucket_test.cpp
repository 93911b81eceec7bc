#include "overlimit/algorithms/token_bucket.hpp"

#include <gtest/gtest.h>

#include "../limits.hpp"
#include "lone_pair.hpp"

namespace overlimit {
namespace {

using namespace testing;

TokenBucket made(std::int64_t burst, For period, std::int64_t units, std::int64_t refill) {
  return TokenBucket::make(std::to_array<std::int64_t>({burst, period.micros(), units, refill, 1, 0, 0}));
}

// What a record with other units has used, in those of the bucket.
std::int64_t rescaled(const TokenBucket& bucket, const Header& state, const std::vector<Cell>& cells = {}) {
  return advance(bucket, state_from<TokenBucket::State>(state), Cells(cells.data(), cells.size()), At(0))
      ->state.used;
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
  EXPECT_EQ(pair.hit(kMaxTime - 1).reset_after, At(kExact - 1) - (kMaxTime - 1));
}

TEST(TokenBucket, ForgetsWhatWasUsedWhenItsRateBecomesNone) {
  LonePair pair(token_bucket(20, 10));
  pair.hit(0, 20);
  pair.change(bucket_of(0, 1, 0));
  EXPECT_EQ(pair.hit(0, 1), (Shown{Status::never, 0, kNever, 0}));
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
  const Micros gone_at = pair.record()->expires_at.micros();
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

}  // namespace
}  // namespace overlimit
