// Time: int64 microseconds since the Unix epoch, the bounds within which all arithmetic is exact, and the
// clocks. Nothing else in the engine reads a clock of the system.
#pragma once

#include <atomic>
#include <cstdint>

namespace overlimit {

/// Microseconds: an instant since the Unix epoch, or a duration.
using Micros = std::int64_t;

/// Integers below this are exact in a Lua number (an IEEE double) too.
inline constexpr std::int64_t kExact = std::int64_t{1} << 53;
/// Instants lie in [0, kMaxTime): 2^50 below kExact, so that now plus any duration stays exact.
inline constexpr Micros kMaxTime = kExact - (std::int64_t{1} << 50);
/// No period is longer (about 17.8 years).
inline constexpr Micros kMaxPeriod = std::int64_t{1} << 49;
/// The retry of a call that can never succeed; infinity in Python.
inline constexpr Micros kNever = INT64_MAX;

/// An instant some time later, saturating just below kExact. Both are >= 0 and below kExact.
constexpr Micros later(Micros instant, Micros duration) noexcept {
  return instant < kExact - duration ? instant + duration : kExact - 1;
}

/// a * b for a, b >= 0, saturating at kExact: enough to say "more than anything stored".
constexpr std::int64_t product(std::int64_t a, std::int64_t b) noexcept {
  std::int64_t result = 0;
  return __builtin_mul_overflow(a, b, &result) || result > kExact ? kExact : result;
}

/// a / b rounded up, for a >= 0 and b > 0.
constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) noexcept {
  return a / b + (a % b != 0 ? 1 : 0);
}

/// (a * b + rounding) / divisor, saturating just below kExact; 0 unless a and the divisor are above 0.
constexpr std::int64_t multiply_divide(std::int64_t a, std::int64_t b, std::int64_t divisor,
                                       std::int64_t rounding) noexcept {
  __extension__ using Wide = unsigned __int128;
  if (a <= 0 || divisor <= 0) return 0;
  const Wide result = (Wide(a) * Wide(b) + Wide(rounding)) / Wide(divisor);
  return result < Wide(kExact) ? std::int64_t(result) : kExact - 1;
}

/// Where "now" comes from when a store is not to use its own. Implementations are thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  /// The reading, within [0, kMaxTime). Throws std::out_of_range for a reading outside.
  virtual Micros now() = 0;
};

/// CLOCK_REALTIME, never its coarse variant.
Micros system_now();

/// A clock that stands still until it is told to move: for tests and simulations.
class ManualClock final : public Clock {
 public:
  explicit ManualClock(Micros start = 0) { set(start); }
  Micros now() override { return now_.load(std::memory_order_acquire); }
  /// Moves by a duration, which may be negative. Throws std::out_of_range when the result leaves
  /// [0, kMaxTime); the clock then stays where it was.
  void advance(Micros duration);
  /// Moves to an instant. Throws std::out_of_range like advance.
  void set(Micros instant);

 private:
  std::atomic<Micros> now_{0};
};

/// Returns the instant, or throws std::out_of_range naming the clock when it is outside [0, kMaxTime).
Micros checked_instant(Micros instant);

}  // namespace overlimit
