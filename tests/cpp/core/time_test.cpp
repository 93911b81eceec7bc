#include "overlimit/time.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace overlimit {
namespace {

static_assert(kMaxTime + 2 * kMaxPeriod == kExact);

TEST(Later, AddsUntilTheSumWouldNotBeExact) {
  static_assert(later(0, 0) == 0);
  static_assert(later(5, 7) == 12);
  static_assert(later(kExact - 3, 2) == kExact - 1);
}

TEST(Later, SaturatesJustBelowTheFirstInexactNumber) {
  static_assert(later(kExact - 3, 3) == kExact - 1);
  static_assert(later(kExact - 1, kExact - 1) == kExact - 1);
  static_assert(later(0, kExact - 1) == kExact - 1);
}

TEST(Product, IsExactUpToItsBound) {
  static_assert(product(0, INT64_MAX) == 0);
  static_assert(product(3, 7) == 21);
  static_assert(product(kExact - 1, 1) == kExact - 1);
  static_assert(product(kExact / 2, 2) == kExact);
}

TEST(Product, SaturatesAtItsBound) {
  static_assert(product(kExact / 2 + 1, 2) == kExact);
  static_assert(product(kExact - 1, kExact - 1) == kExact);
  static_assert(product(INT64_MAX, INT64_MAX) == kExact);
}

TEST(CeilDiv, RoundsUpAndOnlyUp) {
  static_assert(ceil_div(0, 3) == 0);
  static_assert(ceil_div(1, 3) == 1);
  static_assert(ceil_div(3, 3) == 1);
  static_assert(ceil_div(4, 3) == 2);
  static_assert(ceil_div(kExact - 1, 1) == kExact - 1);
}

TEST(CheckedInstant, PassesWhatIsInRange) {
  EXPECT_EQ(checked_instant(0), 0);
  EXPECT_EQ(checked_instant(kMaxTime - 1), kMaxTime - 1);
}

TEST(CheckedInstant, RefusesWhatIsNotAndNamesTheClock) {
  for (const Micros instant : {Micros{-1}, kMaxTime, Micros{INT64_MIN}, Micros{INT64_MAX}}) {
    try {
      checked_instant(instant);
      ADD_FAILURE() << instant;
    } catch (const std::out_of_range& error) {
      EXPECT_NE(std::string(error.what()).find("between 1970 and 2219, not " + std::to_string(instant)),
                std::string::npos);
    }
  }
}

TEST(SystemNow, IsTheRealTime) {
  const auto real = [] {
    const auto since_epoch = std::chrono::system_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::microseconds>(since_epoch).count();
  };
  const Micros before = real();
  const Micros now = system_now();
  EXPECT_LE(before, now);
  EXPECT_LE(now, real());
}

TEST(ManualClock, StandsStillUntilItIsMoved) {
  ManualClock clock(7);
  EXPECT_EQ(clock.now(), 7);
  EXPECT_EQ(clock.now(), 7);
  clock.advance(5);
  EXPECT_EQ(clock.now(), 12);
  clock.set(3);
  EXPECT_EQ(clock.now(), 3);
}

TEST(ManualClock, StartsAtZero) { EXPECT_EQ(ManualClock().now(), 0); }

TEST(ManualClock, GoesBackAsFarAsZero) {
  ManualClock clock(7);
  clock.advance(-7);
  EXPECT_EQ(clock.now(), 0);
  EXPECT_THROW(clock.advance(-1), std::out_of_range);
  EXPECT_EQ(clock.now(), 0);
}

TEST(ManualClock, StaysWhereItWasWhenItWouldLeaveTheRange) {
  ManualClock clock(7);
  EXPECT_THROW(clock.set(-1), std::out_of_range);
  EXPECT_THROW(clock.set(kMaxTime), std::out_of_range);
  EXPECT_THROW(clock.advance(kMaxTime - 7), std::out_of_range);
  EXPECT_EQ(clock.now(), 7);
  clock.advance(kMaxTime - 8);
  EXPECT_EQ(clock.now(), kMaxTime - 1);
}

TEST(ManualClock, RefusesTheLongestDurationsThereAre) {
  ManualClock clock(7);
  EXPECT_THROW(clock.advance(INT64_MAX), std::out_of_range);
  EXPECT_THROW(clock.advance(INT64_MIN), std::out_of_range);
  EXPECT_EQ(clock.now(), 7);
}

TEST(ManualClock, CannotBeBuiltOutOfRange) {
  EXPECT_THROW(ManualClock(-1), std::out_of_range);
  EXPECT_THROW(ManualClock{kMaxTime}, std::out_of_range);
}

TEST(ManualClock, LosesNoStepOfManyThreads) {
  ManualClock clock;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int step = 0; step < 1000; ++step) clock.advance(3);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(clock.now(), 12'000);
}

}  // namespace
}  // namespace overlimit
