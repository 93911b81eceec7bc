#include "overlimit/algorithms/fixed_window.hpp"

#include <gtest/gtest.h>

#include "../limits.hpp"
#include "lone_pair.hpp"
#include "overlimit/errors.hpp"

namespace overlimit {
namespace {

using testing::epoch_window;
using testing::fixed_window;
using testing::kMinute;
using testing::kSecond;
using testing::LonePair;
using testing::Shown;

using State = FixedWindow::State;
using Current = CurrentRecord<State>;

constexpr FixedWindow kThree{3, kMinute, FixedWindow::Start::first};
constexpr FixedWindow kThreeSinceEpoch{3, kMinute, FixedWindow::Start::epoch};

constexpr std::optional<Current> current(std::int64_t count) { return Current{{7, 7 + kMinute, count}, 0}; }

TEST(FixedWindow, OpensAtItsFirstCharge) {
  constexpr State kState = charge(kThree, std::nullopt, 7, 2).state;
  static_assert(kState.start == 7 && kState.end == 7 + kMinute && kState.count == 2);
}

TEST(FixedWindow, OpensAtAMultipleOfThePeriodWhenItStartsAtTheEpoch) {
  constexpr State kState = charge(kThreeSinceEpoch, std::nullopt, 3 * kMinute + 7, 2).state;
  static_assert(kState.start == 3 * kMinute && kState.end == 4 * kMinute && kState.count == 2);
  static_assert(charge(kThreeSinceEpoch, std::nullopt, 4 * kMinute, 1).state.start == 4 * kMinute);
}

TEST(FixedWindow, KeepsItsBoundsWhileItCounts) {
  constexpr State kState = charge(kThree, current(1), 8, 2).state;
  static_assert(kState.start == 7 && kState.end == 7 + kMinute && kState.count == 3);
}

TEST(FixedWindow, AdmitsUpToItsLimitAndNoMore) {
  static_assert(admit(kThree, std::nullopt, {}, 7, 3).status == Status::ok);
  static_assert(admit(kThree, current(2), {}, 8, 1).status == Status::ok);
  static_assert(admit(kThree, current(2), {}, 8, 2).status == Status::over);
  static_assert(admit(kThree, current(3), {}, 8, 1).status == Status::over);
}

TEST(FixedWindow, IsOverUntilItsEnd) {
  static_assert(admit(kThree, current(3), {}, 8, 1).retry_after == kMinute - 1);
  static_assert(admit(kThree, current(3), {}, kMinute + 6, 1).retry_after == 1);
}

TEST(FixedWindow, NeverAdmitsACostAboveItsLimit) {
  static_assert(admit(kThree, std::nullopt, {}, 7, 4).status == Status::never);
  static_assert(admit(kThree, current(3), {}, 8, INT64_MAX).retry_after == kNever);
}

TEST(FixedWindow, ClosesAtItsEndAndNotOneMicrosecondEarlier) {
  static_assert(advance(kThree, {7, 7 + kMinute, 3}, {}, 6 + kMinute).has_value());
  static_assert(!advance(kThree, {7, 7 + kMinute, 3}, {}, 7 + kMinute).has_value());
}

TEST(FixedWindow, GrantsWhatIsLeftAndNeverLessThanNothing) {
  static_assert(remaining(kThree, {7, 7 + kMinute, 1}, 7) == 2);
  static_assert(remaining(kThree, {7, 7 + kMinute, 3}, 7) == 0);
  static_assert(remaining(kThree, {7, 7 + kMinute, 9}, 7) == 0);
  static_assert(remaining(kThree, {}, 7) == 3);
}

TEST(FixedWindow, ShowsEveryFieldToTheMicrosecond) {
  LonePair pair(fixed_window(2, kMinute));
  EXPECT_EQ(pair.hit(7), (Shown{Status::ok, 1, 0, kMinute}));
  EXPECT_EQ(pair.hit(10), (Shown{Status::ok, 0, 0, kMinute - 3}));
  EXPECT_EQ(pair.hit(kMinute), (Shown{Status::over, 0, 7, 7}));
  EXPECT_EQ(pair.hit(kMinute + 7), (Shown{Status::ok, 1, 0, kMinute}));
}

TEST(FixedWindow, LetsTwiceItsLimitPassAroundABoundaryAndNotOneMore) {
  LonePair pair(epoch_window(3, kMinute));
  int admitted = 0;
  for (Micros now = kMinute - 5; now < kMinute + 5; ++now) admitted += pair.hit(now).status == Status::ok;
  EXPECT_EQ(admitted, 6);
}

TEST(FixedWindow, OpensNoWindowForARefusedCallOrACostOfZero) {
  LonePair pair(fixed_window(3, kMinute));
  EXPECT_EQ(pair.hit(5, 4), (Shown{Status::never, 3, kNever, 0}));
  EXPECT_EQ(pair.hit(6, 0), (Shown{Status::ok, 3, 0, 0}));
  EXPECT_FALSE(pair.record());
  pair.hit(7);
  EXPECT_EQ(pair.record()->header, (Header{7, 7 + kMinute, 1}));
}

TEST(FixedWindow, ALoweredLimitRefusesEvenACostOfZeroUntilTheWindowEnds) {
  LonePair pair(fixed_window(5, kMinute));
  pair.hit(0, 4);
  pair.change(fixed_window(3, kMinute));
  EXPECT_EQ(pair.hit(1, 0), (Shown{Status::over, 0, kMinute - 1, kMinute - 1}));
  EXPECT_TRUE(pair.allows(kMinute, 3));
}

TEST(FixedWindow, ARaisedLimitGrantsTheDifference) {
  LonePair pair(fixed_window(3, kMinute));
  pair.hit(0, 3);
  pair.change(fixed_window(5, kMinute));
  EXPECT_TRUE(pair.allows(1, 2));
  EXPECT_FALSE(pair.allows(1, 3));
}

TEST(FixedWindow, ALimitOfZeroAdmitsNothingButNothing) {
  LonePair pair(fixed_window(0, kMinute));
  EXPECT_EQ(pair.hit(0, 1).status, Status::never);
  EXPECT_EQ(pair.hit(0, 0).status, Status::ok);
}

TEST(FixedWindow, WorksAtTheEndOfTime) {
  LonePair pair(fixed_window(1, kMaxPeriod));
  EXPECT_EQ(pair.hit(kMaxTime - 1), (Shown{Status::ok, 0, 0, kMaxPeriod}));
  EXPECT_EQ(pair.hit(kMaxTime - 1), (Shown{Status::over, 0, kMaxPeriod, kMaxPeriod}));
}

TEST(FixedWindow, GivesBackToTheWindowThatWasCharged) {
  LonePair pair(fixed_window(5, kMinute));
  pair.hit(7, 2);
  const Header receipt = pair.receipt();
  pair.hit(8, 2);
  EXPECT_TRUE(pair.refund(9, receipt, 2));
  EXPECT_EQ(pair.peek(9), (Shown{Status::ok, 3, 0, kMinute - 2}));
  pair.hit(kMinute + 7, 4);
  EXPECT_FALSE(pair.refund(kMinute + 8, receipt, 2));
  EXPECT_EQ(pair.peek(kMinute + 8).remaining, 1);
}

TEST(FixedWindow, GivesBackNoMoreThanItCounts) {
  LonePair pair(fixed_window(5, kMinute));
  pair.hit(7, 2);
  pair.refund(8, pair.receipt(), 2);
  pair.refund(8, pair.receipt(), 2);
  EXPECT_EQ(pair.record()->header, (Header{7, 7 + kMinute, 0})) << "and the window does not move";
}

TEST(FixedWindow, GivesNothingBackWhenItIsOver) {
  LonePair pair(fixed_window(5, kMinute));
  pair.hit(7, 2);
  EXPECT_TRUE(pair.refund(kMinute + 6, pair.receipt()));
  EXPECT_FALSE(pair.refund(kMinute + 7, pair.receipt()));
}

TEST(FixedWindow, IsBuiltFromNumbersInRangeOnly) {
  EXPECT_NO_THROW(fixed_window(0, 1));
  EXPECT_NO_THROW(fixed_window(kExact - 1, kMaxPeriod));
  EXPECT_THROW(fixed_window(-1, kMinute), InvalidLimit);
  EXPECT_THROW(fixed_window(kExact, kMinute), InvalidLimit);
  EXPECT_THROW(fixed_window(3, 0), InvalidLimit);
  EXPECT_THROW(fixed_window(3, -1), InvalidLimit);
  EXPECT_THROW(fixed_window(3, kMaxPeriod + 1), InvalidLimit);
  EXPECT_THROW(FixedWindow::make(std::to_array<std::int64_t>({3, kMinute, 2})), InvalidLimit);
  EXPECT_THROW(FixedWindow::make(std::to_array<std::int64_t>({3, kMinute, 3})), InvalidLimit);
  EXPECT_THROW(FixedWindow::make(std::to_array<std::int64_t>({3, kMinute, -1})), InvalidLimit);
  EXPECT_THROW(FixedWindow::make(std::to_array<std::int64_t>({3, kMinute})), InvalidLimit);
}

}  // namespace
}  // namespace overlimit
