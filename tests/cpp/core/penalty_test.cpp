#include "overlimit/penalty.hpp"

#include <gtest/gtest.h>

#include "overlimit/errors.hpp"

namespace overlimit {
namespace {

const Penalty kGrowing{{100, 400, 900}};

TEST(Penalty, StartsAtItsFirstLevel) {
  const Lock first = next_lock(kGrowing, std::nullopt, 1'000);
  EXPECT_EQ(first.start, 1'000);
  EXPECT_EQ(first.end, 1'100);
  EXPECT_EQ(first.levels_taken, 1U);
  EXPECT_EQ(first.expires_at, 1'200) << "remembered for its own length";
}

TEST(Penalty, TakesTheNextLevelAndRepeatsTheLast) {
  std::optional<Lock> lock;
  Micros now = 0;
  for (const Micros length : {100, 400, 900, 900, 900}) {
    lock = next_lock(kGrowing, lock, now);
    EXPECT_EQ(lock->end - lock->start, length);
    EXPECT_EQ(lock->expires_at - lock->end, length);
    now = lock->end;
  }
}

TEST(Penalty, RemembersALevelForAsLongAsItIsTold) {
  EXPECT_EQ(next_lock(Penalty{{100}, false, 7}, std::nullopt, 0).expires_at, 107);
  EXPECT_EQ(next_lock(Penalty{{100}, false, 0}, std::nullopt, 0).expires_at, 100);
}

TEST(Penalty, ExtendsAtTheLevelTaken) {
  const Penalty penalty{{100, 400}, true};
  const Lock second = next_lock(penalty, next_lock(penalty, std::nullopt, 0), 100);
  EXPECT_TRUE(extends(penalty, second));
  const Lock after = extended(penalty, second, 300);
  EXPECT_EQ(after.end, 700);
  EXPECT_EQ(after.levels_taken, 2U);
  EXPECT_FALSE(extends(kGrowing, second)) << "unless it does not";
}

TEST(Penalty, OfFewerLevelsTakesOneBeyondForItsLast) {
  Lock third{0, 900, 3, false, 1'800};
  EXPECT_EQ(next_lock(Penalty{{5, 8}}, third, 900).end, 908);
  EXPECT_EQ(extended(Penalty{{5, 8}, true}, third, 100).end, 108);
}

TEST(Penalty, IsBuiltFromLevelsInRangeOnly) {
  EXPECT_NO_THROW((Penalty{{1, kMaxPeriod}, true, kMaxPeriod}.check()));
  EXPECT_NO_THROW((Penalty{{1}, false, 0}.check()));
  EXPECT_NO_THROW((Penalty{std::vector<Micros>(64, 1)}.check()));
  EXPECT_THROW((Penalty{{}}.check()), InvalidLimit);
  EXPECT_THROW((Penalty{std::vector<Micros>(65, 1)}.check()), InvalidLimit);
  EXPECT_THROW((Penalty{{1, 0}}.check()), InvalidLimit);
  EXPECT_THROW((Penalty{{kMaxPeriod + 1}}.check()), InvalidLimit);
  EXPECT_THROW((Penalty{{1}, false, -1}.check()), InvalidLimit);
  EXPECT_THROW((Penalty{{1}, false, kMaxPeriod + 1}.check()), InvalidLimit);
}

TEST(Penalty, PacksItsLevelsWithWhatEachIsRemembered) {
  EXPECT_EQ(kGrowing.packed(), (std::vector<std::int64_t>{100, 100, 400, 400, 900, 900}));
  EXPECT_EQ((Penalty{{5, 6}, true, 7}.packed()), (std::vector<std::int64_t>{5, 7, 6, 7}));
}

TEST(Lock, HoldsUntilItsEndAndNotOneMicrosecondLonger) {
  const Lock record{100, 200, 1, false, 300};
  EXPECT_TRUE(record.holds(199));
  EXPECT_FALSE(record.holds(200));
  EXPECT_EQ(record.time_left(199), 1);
  EXPECT_EQ(record.time_left(200), 0);
  EXPECT_EQ(record.time_left(299), 0);
}

TEST(Lock, IsJudgedNoEarlierThanItsStart) {
  const Lock record{100, 200, 1, false, 300};
  EXPECT_EQ(record.time_left(0), 100);
  EXPECT_EQ(next_lock(kGrowing, record, 0).end, 500);
}

TEST(Lock, IsThreeNumbersInItsRecord) {
  EXPECT_EQ(header_of({100, 200, 3, false, 300}), (Header{100, 200, 6}));
  EXPECT_EQ(header_of({100, 200, 3, true, 300}), (Header{100, 200, 7})) << "odd if set by hand";
  const Lock lock = lock_from({100, 200, 7}, 300);
  EXPECT_EQ(lock.levels_taken, 3U);
  EXPECT_TRUE(lock.by_hand);
  EXPECT_EQ(header_of(lock), (Header{100, 200, 7}));
}

TEST(Lock, IsRememberedUntilItExpires) {
  EXPECT_TRUE(remembered_lock(300, {100, 200, 2}, 299));
  EXPECT_FALSE(remembered_lock(300, {100, 200, 2}, 300));
  EXPECT_FALSE(remembered_lock(kExact - 1, {kMaxTime, kMaxTime + 1, 2}, 299)) << "of a time no clock reads";
}

TEST(LockByHand, HoldsForSoLongAndIsNoLevel) {
  const Lock record = locked_by_hand(std::nullopt, 50, 1'000);
  EXPECT_EQ(record.end, 1'050);
  EXPECT_EQ(record.levels_taken, 0U);
  EXPECT_TRUE(record.by_hand);
  EXPECT_EQ(record.expires_at, 1'050);
  EXPECT_EQ(next_lock(kGrowing, record, 1'049).levels_taken, 1U);
}

TEST(LockByHand, KeepsTheLevelAndHowLongThatIsRemembered) {
  const Lock record = locked_by_hand(Lock{0, 400, 2, false, 800}, 500, 1'000);
  EXPECT_EQ(record.end, 1'500);
  EXPECT_EQ(record.levels_taken, 2U);
  EXPECT_EQ(record.expires_at, 1'900);
  EXPECT_EQ(next_lock(kGrowing, record, 1'899).end, 1'899 + 900);
}

TEST(LockByHand, IsNotExtendedButAViolationTakesItsPlace) {
  const Penalty penalty{{100}, true};
  const Lock record = locked_by_hand(next_lock(penalty, std::nullopt, 0), 10, 20);
  EXPECT_FALSE(extends(penalty, record));
  EXPECT_TRUE(extends(penalty, next_lock(penalty, record, 40)));
}

TEST(LockByHand, SaturatesBelowTheFirstInexactInstant) {
  EXPECT_EQ(locked_by_hand(std::nullopt, kMaxTime - 1, kExact - 1).end, kExact - 1);
}

}  // namespace
}  // namespace overlimit
