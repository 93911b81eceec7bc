#include "overlimit/algorithms/fixed_window.hpp"

#include <gtest/gtest.h>

#include "../limits.hpp"
#include "overlimit/errors.hpp"

namespace overlimit {
namespace {

using testing::fixed_window;
using testing::kMinute;

using State = FixedWindow::State;

constexpr FixedWindow kThree{3, For(kMinute), FixedWindow::Start::first};
constexpr FixedWindow kThreeSinceEpoch{3, For(kMinute), FixedWindow::Start::epoch};

TEST(FixedWindow, OpensAtItsFirstCharge) {
  constexpr State kState = charge(kThree, std::nullopt, At(7), 2).state;
  static_assert(kState.start == 7 && kState.end == 7 + kMinute && kState.count == 2);
}

TEST(FixedWindow, OpensAtAMultipleOfThePeriodWhenItStartsAtTheEpoch) {
  constexpr State kState = charge(kThreeSinceEpoch, std::nullopt, At(3 * kMinute + 7), 2).state;
  static_assert(kState.start == 3 * kMinute && kState.end == 4 * kMinute && kState.count == 2);
  static_assert(charge(kThreeSinceEpoch, std::nullopt, At(4 * kMinute), 1).state.start == 4 * kMinute);
}

TEST(FixedWindow, KeepsItsBoundsWhileItCounts) {
  constexpr CurrentRecord<State> kCurrent{{At(7), At(7 + kMinute), 1}, 0};
  constexpr State kState = charge(kThree, kCurrent, At(8), 2).state;
  static_assert(kState.start == 7 && kState.end == 7 + kMinute && kState.count == 3);
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
