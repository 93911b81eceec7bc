#include "overlimit/penalty.hpp"

#include <gtest/gtest.h>

#include "../times.hpp"
#include "overlimit/errors.hpp"

namespace overlimit {
namespace {

using namespace testing;

const Penalty kGrowing = penalty({100, 400, 900});

TEST(Penalty, IsBuiltFromLevelsInRangeOnly) {
  EXPECT_NO_THROW((penalty({1, kMaxPeriod}, true, kMaxPeriod).check()));
  EXPECT_NO_THROW((penalty({1}, false, 0).check()));
  EXPECT_NO_THROW((Penalty{std::vector<Duration>(64, For(1))}.check()));
  EXPECT_THROW((penalty({}).check()), InvalidLimit);
  EXPECT_THROW((Penalty{std::vector<Duration>(65, For(1))}.check()), InvalidLimit);
  EXPECT_THROW((penalty({1, 0}).check()), InvalidLimit);
  EXPECT_THROW((penalty({kMaxPeriod + 1}).check()), InvalidLimit);
  EXPECT_THROW((penalty({1}, false, -1).check()), InvalidLimit);
  EXPECT_THROW((penalty({1}, false, kMaxPeriod + 1).check()), InvalidLimit);
}

TEST(Penalty, PacksItsLevelsWithWhatEachIsRemembered) {
  EXPECT_EQ(kGrowing.packed(), (std::vector<std::int64_t>{100, 100, 400, 400, 900, 900}));
  EXPECT_EQ((penalty({5, 6}, true, 7).packed()), (std::vector<std::int64_t>{5, 7, 6, 7}));
}

TEST(Lock, IsThreeNumbersInItsRecord) {
  EXPECT_EQ(header_of({At(100), At(200), 3, false, At(300)}), (Header{100, 200, 6}));
  EXPECT_EQ(header_of({At(100), At(200), 3, true, At(300)}), (Header{100, 200, 7})) << "odd if set by hand";
  const Lock lock = lock_from({100, 200, 7}, At(300));
  EXPECT_EQ(lock.levels_taken, 3U);
  EXPECT_TRUE(lock.by_hand);
  EXPECT_EQ(header_of(lock), (Header{100, 200, 7}));
}

TEST(Lock, IsRememberedUntilItExpires) {
  EXPECT_TRUE(remembered_lock(At(300), {100, 200, 2}, At(299)));
  EXPECT_FALSE(remembered_lock(At(300), {100, 200, 2}, At(300)));
  EXPECT_FALSE(remembered_lock(At(kExact - 1), {kMaxTime.micros(), kMaxTime.micros() + 1, 2}, At(299)))
      << "of a time no clock reads";
}

TEST(LockByHand, SaturatesBelowTheFirstInexactInstant) {
  EXPECT_EQ(locked_by_hand(std::nullopt, kMaxTime - 1, For(kExact - 1)).end, kExact - 1);
}

}  // namespace
}  // namespace overlimit
