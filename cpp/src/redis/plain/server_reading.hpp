// What a server's clock may show now, by what it showed in an earlier reply.
#pragma once

#include <ctime>

#include "overlimit/time.hpp"

namespace overlimit::redis {

/// Time since this machine was started, by a clock that nobody sets and that runs while the machine sleeps.
inline Duration boot_time() {
#ifdef CLOCK_BOOTTIME
  constexpr clockid_t kClock = CLOCK_BOOTTIME;
#else
  constexpr clockid_t kClock = CLOCK_MONOTONIC;
#endif
  timespec reading{};
  clock_gettime(kClock, &reading);
  return Duration(reading.tv_sec * 1'000'000 + reading.tv_nsec / 1'000);
}

/// What a server's clock showed between two instants of ours. As long as nobody sets that clock, and its
/// speed and ours differ by an eighth at most, it shows at any later boot time something from earliest() to
/// latest().
struct ServerReading {
  Instant shown;
  Duration asked_at;     ///< boot time before the request was sent
  Duration answered_at;  ///< boot time after the reply came

  // A microsecond more and less, as both clocks are read in whole ones.
  [[nodiscard]] constexpr Instant earliest(Duration now) const {
    const Duration passed = max(Duration{}, now - answered_at - kMicrosecond);
    return shown + (passed - Duration(ceil_div(passed.micros(), kDrift)));
  }
  [[nodiscard]] constexpr Instant latest(Duration now) const {
    const Duration passed = max(Duration{}, now - asked_at) + kMicrosecond;
    return shown + passed + Duration(ceil_div(passed.micros(), kDrift)) + kMicrosecond;
  }

  /// The boot time before which it certainly shows less than this.
  [[nodiscard]] constexpr Duration before(Instant instant) const {
    const std::int64_t left = (instant - shown - Duration(5)).micros();
    return left <= 0 ? asked_at : asked_at + Duration(left - ceil_div(left, kDrift + 1));
  }

 private:
  static constexpr std::int64_t kDrift = 8;
};

}  // namespace overlimit::redis
