// Instants and durations, the bounds of exact arithmetic, and the clocks: nothing else reads the system's.
#pragma once

#include <atomic>
#include <compare>
#include <cstdint>
#include <limits>

namespace overlimit {

/// How long something takes: whole microseconds.
class Duration {
 public:
  Duration() = default;
  constexpr explicit Duration(std::int64_t micros) noexcept : micros_(micros) {}
  [[nodiscard]] constexpr std::int64_t micros() const noexcept { return micros_; }
  /// Infinity for kNever.
  [[nodiscard]] constexpr double seconds() const noexcept {
    return micros_ == INT64_MAX ? std::numeric_limits<double>::infinity() : double(micros_) / 1e6;
  }

  friend constexpr auto operator<=>(Duration, Duration) = default;
  friend constexpr Duration operator+(Duration a, Duration b) { return Duration(a.micros_ + b.micros_); }
  friend constexpr Duration operator-(Duration a, Duration b) { return Duration(a.micros_ - b.micros_); }
  friend constexpr Duration operator*(std::int64_t times, Duration a) { return Duration(times * a.micros_); }
  friend constexpr Duration operator/(Duration a, std::int64_t parts) { return Duration(a.micros_ / parts); }
  /// How many whole times `b` fits into `a`, and what is left over.
  friend constexpr std::int64_t operator/(Duration a, Duration b) { return a.micros_ / b.micros_; }
  friend constexpr Duration operator%(Duration a, Duration b) { return Duration(a.micros_ % b.micros_); }
  // Of the numbers: of objects, compilers choose between two places in memory.
  friend constexpr Duration min(Duration a, Duration b) {
    return Duration(a.micros_ < b.micros_ ? a.micros_ : b.micros_);
  }
  friend constexpr Duration max(Duration a, Duration b) {
    return Duration(a.micros_ < b.micros_ ? b.micros_ : a.micros_);
  }

 private:
  std::int64_t micros_;
};

/// A point in time: whole microseconds since the Unix epoch.
class Instant {
 public:
  Instant() = default;
  constexpr explicit Instant(std::int64_t micros) noexcept : since_epoch_(micros) {}
  constexpr explicit Instant(Duration since_epoch) noexcept : since_epoch_(since_epoch) {}
  [[nodiscard]] constexpr Duration since_epoch() const noexcept { return since_epoch_; }
  [[nodiscard]] constexpr std::int64_t micros() const noexcept { return since_epoch_.micros(); }

  friend constexpr auto operator<=>(Instant, Instant) = default;
  friend constexpr Instant operator+(Instant a, Duration b) { return Instant(a.micros() + b.micros()); }
  friend constexpr Instant operator-(Instant a, Duration b) { return Instant(a.micros() - b.micros()); }
  friend constexpr Duration operator-(Instant a, Instant b) { return a.since_epoch_ - b.since_epoch_; }
  friend constexpr Instant min(Instant a, Instant b) { return Instant(min(a.since_epoch_, b.since_epoch_)); }
  friend constexpr Instant max(Instant a, Instant b) { return Instant(max(a.since_epoch_, b.since_epoch_)); }

 private:
  Duration since_epoch_;
};

/// Integers below this are exact in a Lua number (an IEEE double) too.
inline constexpr std::int64_t kExact = std::int64_t{1} << 53;
/// Instants lie in [0, kMaxTime): 2^50 below kExact, so that now plus any duration stays exact.
inline constexpr Instant kMaxTime{kExact - (std::int64_t{1} << 50)};
/// No period is longer (about 17.8 years).
inline constexpr Duration kMaxPeriod{std::int64_t{1} << 49};
inline constexpr Duration kMicrosecond{1};
/// The retry of a call that can never succeed; infinity in Python.
inline constexpr Duration kNever{INT64_MAX};

/// a + b for a, b in [0, kExact], saturating just below kExact.
constexpr std::int64_t sum(std::int64_t a, std::int64_t b) noexcept {
  return a < kExact - b ? a + b : kExact - 1;
}

/// Whether a count may have saturated, so that what it is made of can no longer be told.
constexpr bool is_saturated(std::int64_t count) noexcept { return count >= kExact - 1; }

/// An instant some time later, saturating like sum().
constexpr Instant later(Instant instant, Duration duration) noexcept {
  return Instant(sum(instant.micros(), duration.micros()));
}

/// a * b for a, b >= 0, saturating at kExact: enough to say "more than anything stored".
constexpr std::int64_t product(std::int64_t a, std::int64_t b) noexcept {
  std::int64_t result = 0;
  return __builtin_mul_overflow(a, b, &result) || result > kExact ? kExact : result;
}

/// So many times as long, saturating like product().
constexpr Duration product(std::int64_t times, Duration each) noexcept {
  return Duration(product(times, each.micros()));
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
  virtual Instant now() = 0;
};

/// CLOCK_REALTIME, never its coarse variant.
Instant system_now();

/// A clock that stands still until it is told to move: for tests and simulations.
class ManualClock final : public Clock {
 public:
  explicit ManualClock(Instant start = Instant(0)) { set(start); }
  Instant now() override { return now_.load(std::memory_order_acquire); }
  /// Moves by a duration, which may be negative. Throws std::out_of_range when the result leaves
  /// [0, kMaxTime); the clock then stays where it was.
  void advance(Duration duration);
  /// Throws std::out_of_range like advance.
  void set(Instant instant);

 private:
  std::atomic<Instant> now_{Instant(0)};
};

/// Returns the instant, or throws std::out_of_range naming the clock when it is outside [0, kMaxTime).
Instant checked_instant(Instant instant);

}  // namespace overlimit
