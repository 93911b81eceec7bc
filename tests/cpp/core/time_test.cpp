#include "overlimit/time.hpp"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "../threads.hpp"
#include "../times.hpp"
#include "overlimit/pair.hpp"

namespace overlimit {
namespace {

static_assert(kMaxTime + 2 * kMaxPeriod == kExact);

// They are as cheap as the numbers in them, and state that holds them lies in shared memory as before.
static_assert(std::is_trivial_v<Instant> && sizeof(Instant) == sizeof(std::int64_t));
static_assert(std::is_trivial_v<Duration> && sizeof(Duration) == sizeof(std::int64_t));

template <class... Arguments>
concept CanAdd = requires(Arguments... arguments) {
  (arguments + ...);
};
template <class One, class Other>
concept CanCompare = requires(One one, Other other) {
  one < other;
};
template <class... Arguments>
concept CanExamine = requires(const Limit& limit, Arguments... arguments) {
  examine(limit, nullptr, arguments...);
};

// They cannot take each other's place, nor that of a number.
static_assert(CanAdd<Instant, Duration> && CanAdd<Duration, Duration>);
static_assert(!CanAdd<Instant, Instant> && !CanAdd<Duration, Instant>);
static_assert(!CanCompare<Instant, Duration> && !CanCompare<Duration, Instant>);
static_assert(std::is_same_v<decltype(kMaxTime - kMaxTime), Duration>);
static_assert(!std::is_convertible_v<Instant, Duration> && !std::is_convertible_v<Duration, Instant>);
static_assert(!std::is_convertible_v<std::int64_t, Instant> && !std::is_convertible_v<Instant, std::int64_t>);
static_assert(!std::is_convertible_v<std::int64_t, Duration> &&
              !std::is_convertible_v<Duration, std::int64_t>);
static_assert(CanExamine<Instant, Cost, Duration>);
static_assert(!CanExamine<Cost, Instant, Duration> && !CanExamine<Duration, Cost, Instant>);

// Sums are exact, and saturate just below the first inexact number.
static_assert(later(At(0), For(0)) == 0);
static_assert(later(At(5), For(7)) == 12);
static_assert(later(At(kExact - 3), For(2)) == kExact - 1);
static_assert(later(At(kExact - 3), For(3)) == kExact - 1);
static_assert(later(At(kExact - 1), For(kExact - 1)) == kExact - 1);
static_assert(later(At(0), For(kExact - 1)) == kExact - 1);

// Products are exact up to their bound, at which they saturate.
static_assert(product(0, INT64_MAX) == 0);
static_assert(product(3, 7) == 21);
static_assert(product(kExact - 1, 1) == kExact - 1);
static_assert(product(kExact / 2, 2) == kExact);
static_assert(product(kExact / 2 + 1, 2) == kExact);
static_assert(product(kExact - 1, kExact - 1) == kExact);
static_assert(product(INT64_MAX, INT64_MAX) == kExact);

// Rounded up, and only up.
static_assert(ceil_div(0, 3) == 0);
static_assert(ceil_div(1, 3) == 1);
static_assert(ceil_div(3, 3) == 1);
static_assert(ceil_div(4, 3) == 2);
static_assert(ceil_div(kExact - 1, 1) == kExact - 1);

TEST(CheckedInstant, PassesWhatIsInRange) {
  EXPECT_EQ(checked_instant(At(0)), 0);
  EXPECT_EQ(checked_instant(kMaxTime - 1), kMaxTime - 1);
}

TEST(CheckedInstant, RefusesWhatIsNotAndNamesTheClock) {
  for (const At instant : std::to_array<At>({-1, kMaxTime, INT64_MIN, INT64_MAX})) {
    try {
      checked_instant(instant);
      ADD_FAILURE() << instant.micros();
    } catch (const std::out_of_range& error) {
      EXPECT_NE(
          std::string(error.what()).find("between 1970 and 2219, not " + std::to_string(instant.micros())),
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
  const Micros now = system_now().micros();
  EXPECT_LE(before, now);
  EXPECT_LE(now, real());
}

TEST(ManualClock, RefusesTheLongestDurationsThereAre) {
  ManualClock clock(At(7));
  EXPECT_THROW(clock.advance(For(INT64_MAX)), std::out_of_range);
  EXPECT_THROW(clock.advance(For(INT64_MIN)), std::out_of_range);
  EXPECT_EQ(clock.now(), 7);
}

TEST(ManualClock, LosesNoStepOfManyThreads) {
  ManualClock clock;
  testing::in_threads(4, [&](std::ptrdiff_t) {
    for (int step = 0; step < 1000; ++step) clock.advance(For(3));
  });
  EXPECT_EQ(clock.now(), 12'000);
}

}  // namespace
}  // namespace overlimit
