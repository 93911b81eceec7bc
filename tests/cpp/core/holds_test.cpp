#include "overlimit/algorithms/holds.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "../limits.hpp"
#include "overlimit/pair.hpp"

namespace overlimit {
namespace {

using namespace testing;

// A bucket of a hundred tokens of ten units, of which one comes back every microsecond, that was asked at
// 1000.
class HeldBucket : public ::testing::Test {
 protected:
  static constexpr std::int64_t kUnits = 10;

  [[nodiscard]] FoundRecord found() const {
    return {At(expires_at), {used, 1'000, refunded}, Cells(cells.data(), cells.size())};
  }
  [[nodiscard]] ExaminedPair at(Micros now, Cost cost = 0) const {
    const FoundRecord record = found();
    return examine(limit, &record, At(now), cost);
  }
  [[nodiscard]] std::int64_t used_at(Micros now) const { return at(now).header[0]; }

  Limit limit = bucket_of(100, kUnits, 1);
  std::int64_t used = 60;
  std::int64_t refunded = kUnits;
  Micros expires_at = 1'000'000;
  std::vector<Cell> cells{{0, -kUnits}, {1'020, 30}, {1'050, 20}};
};

TEST_F(HeldBucket, DrainsDownToWhatIsHeld) {
  EXPECT_EQ(used_at(1'000), 60);
  EXPECT_EQ(used_at(1'009), 51);
  EXPECT_EQ(used_at(1'010), 50);
  EXPECT_EQ(used_at(1'019), 50);
}

TEST_F(HeldBucket, DrainsOnFromThereWhenAHoldHasPassed) {
  EXPECT_EQ(used_at(1'020), 50);
  EXPECT_EQ(used_at(1'021), 49);
  EXPECT_EQ(used_at(1'050), 20);
  EXPECT_EQ(used_at(1'051), 19);
  EXPECT_EQ(used_at(1'070), 0);
}

TEST_F(HeldBucket, CountsHoldsThatHavePassedAsGivenBack) {
  EXPECT_EQ(at(1'019).header[2], kUnits);
  EXPECT_EQ(at(1'020).header[2], kUnits + 30);
  EXPECT_EQ(at(1'050).header[2], kUnits + 50);
}

TEST_F(HeldBucket, SaysExactlyWhenACostFits) {
  used = 1'000;
  cells = {{0, -kUnits}, {2'000, 300}, {3'000, 500}};
  for (const Cost cost : {1, 5, 20, 25, 50, 51, 70, 100}) {
    const Duration retry_after = at(1'000, cost).verdict.retry_after;
    ASSERT_GE(retry_after, For(1)) << cost;
    const Micros then = 1'000 + retry_after.micros();
    EXPECT_EQ(at(then, cost).verdict.status, Status::ok) << cost;
    EXPECT_EQ(at(then - 1, cost).verdict.status, Status::over) << cost;
  }
}

TEST_F(HeldBucket, IsGoneWhenNothingOfWhatWasHeldIsUsed) {
  EXPECT_EQ(at(1'000).expires_at, At(1'070));
  used = 90;
  EXPECT_EQ(at(1'000).expires_at, At(1'090));
  EXPECT_EQ(at(1'030).expires_at, At(1'090));
}

TEST_F(HeldBucket, KeepsWhatIsHeldWhenItIsCharged) {
  const FoundRecord record = found();
  const ExaminedPair pair = at(1'030, 1);
  const ChargedPair written = charge(limit, pair, 1);
  EXPECT_EQ(written.state, (Header{40 + 10, 1'030, kUnits + 30}));
  const std::vector<Cell> after = cells_after_charge(limit, &record, pair, written);
  EXPECT_EQ(after, (std::vector<Cell>{{0, -kUnits}, {1'050, 20}}));
  EXPECT_EQ(expiry_with(after, limit, written), At(expires_at)) << "as long as it knows what was given back";
  EXPECT_EQ(verdict_after_charge(limit, &record, pair, written, 98).retry_after, For(30))
      << "30 drain, 20 are held";
}

TEST_F(HeldBucket, IsChargedWithoutHoldsOnceAllHavePassed) {
  const FoundRecord record = found();
  const ExaminedPair pair = at(1'055, 1);
  const ChargedPair written = charge(limit, pair, 1);
  EXPECT_EQ(cells_after_charge(limit, &record, pair, written), (std::vector<Cell>{{0, -kUnits}}));
}

TEST_F(HeldBucket, RescalesWhatIsHeldRoundingUp) {
  limit = bucket_of(100, 15, 1);
  EXPECT_EQ(at(1'000).header, (Header{90, 1'000, bucket::kUnknown}));
  EXPECT_EQ(used_at(1'019), 75);
  limit = bucket_of(100, 7, 1);
  EXPECT_EQ(used_at(1'019), 21 + 14);
  cells[1].count = 31;
  EXPECT_EQ(used_at(1'019), 22 + 14);
}

TEST_F(HeldBucket, GivesBackNothingThatIsHeld) {
  const FoundRecord record = found();
  const Header then{60, 1'000, kUnits};
  EXPECT_EQ(refund(limit, record, then, At(1'000), 1)->state, (Header{50, 1'000, kUnits + 10}));
  EXPECT_EQ(refund(limit, record, then, At(1'000), 5)->state, (Header{50, 1'000, kUnits + 10}));
  EXPECT_FALSE(refund(limit, record, then, At(1'010), 1)) << "it has drained, whatever is held";
  EXPECT_FALSE(refund(limit, record, then, At(1'060), 1));
  EXPECT_FALSE(refund(limit, record, then, At(1'000), 5)->note) << "the cells stay";
}

TEST_F(HeldBucket, GivesBackNoMoreOnceWhatWasHeldHasPassedAndIsCounted) {
  cells = {{0, -kUnits}};
  used = 200;
  refunded = kUnits + 50;
  EXPECT_EQ(refund(limit, found(), {60, 1'000, kUnits}, At(1'005), 1)->state[0], 195);
  EXPECT_FALSE(refund(limit, found(), {60, 1'000, kUnits}, At(1'010), 1));
}

TEST_F(HeldBucket, TakesCellsOfAnotherFormForNone) {
  const std::vector<Cell> valid = cells;
  for (const Cell other :
       {Cell{1'050, 0}, Cell{1'050, -5}, Cell{1'050, kExact}, Cell{1'050, INT64_MIN}, Cell{1'000, 20},
        Cell{-1, 20}, Cell{INT64_MIN, 20}, Cell{INT64_MAX, 20}, Cell{1'001 + kLongestHold.micros(), 20}}) {
    cells = valid;
    cells[2] = other;
    EXPECT_EQ(used_at(1'019), 41) << other.at << ' ' << other.count;
    EXPECT_EQ(used_at(1'031), 29) << other.at << ' ' << other.count;
  }
}

TEST_F(HeldBucket, TakesCellsInAnotherOrderForNone) {
  cells = {{0, -kUnits}, {1'050, 20}, {1'020, 30}, {1'020, 1}};
  EXPECT_EQ(used_at(1'000), 60);
  EXPECT_EQ(used_at(1'031), 29);
}

TEST_F(HeldBucket, HoldsNothingByMoreCellsThanThereCanBe) {
  cells.resize(1);
  for (Micros until = 1'041; until <= 1'048; ++until) cells.push_back({until, 5});
  EXPECT_EQ(used_at(1'040), 40);
  EXPECT_EQ(used_at(1'043), 38) << "the first three pass one after the other";
  cells.push_back({1'050, 1});
  EXPECT_EQ(used_at(1'040), 20);
}

TEST_F(HeldBucket, HoldsAtMostWhatANumberCanSay) {
  cells = {{0, -kUnits}, {1'020, kExact - 1}, {1'050, kExact - 1}};
  EXPECT_EQ(used_at(1'010), kExact - 1);
  EXPECT_GE(at(1'010, 1).verdict.retry_after, For(1));
  EXPECT_LE(at(1'010, 1).verdict.retry_after, For(expires_at - 1'010));
}

TEST_F(HeldBucket, HoldsNothingIfItRefillsByTheInterval) {
  limit = interval_bucket(100, 5, 50);
  cells[0].count = -1;
  refunded = 1;
  EXPECT_EQ(used_at(1'050), 55);
  EXPECT_EQ(at(1'000).expires_at, At(1'000 + 600));
}

}  // namespace
}  // namespace overlimit
