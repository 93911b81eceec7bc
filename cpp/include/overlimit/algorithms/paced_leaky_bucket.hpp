// Leaky bucket with a burst: a queue that lets `burst` callers go at once, spaces those behind them by
// period / rate, and holds `capacity` more. What is in the queue drains continuously, so its state and its
// arithmetic are those of a token bucket of burst + capacity; an admitted caller is told how long to wait.
#pragma once

#include <numeric>
#include <span>
#include <string_view>

#include "overlimit/algorithms/checks.hpp"
#include "overlimit/algorithms/token_bucket.hpp"

namespace overlimit {

struct PacedLeakyBucket : TokenBucket {
  static constexpr std::string_view kName = "paced_leaky_bucket";

  std::int64_t capacity;  ///< how many of those that it takes wait

  /// From (rate, period_us, capacity, burst). Throws InvalidLimit naming the number.
  static PacedLeakyBucket make(std::span<const std::int64_t> numbers);
  [[nodiscard]] std::array<std::int64_t, 6> packed() const {
    return {burst, capacity, units, refill, every.micros(), std::int64_t(start)};
  }
  /// What is used while nobody waits.
  [[nodiscard]] constexpr std::int64_t at_once() const { return (burst - capacity) * units; }
};

inline PacedLeakyBucket PacedLeakyBucket::make(std::span<const std::int64_t> numbers) {
  checks::require_numbers(numbers, 4, kName);
  const auto [rate, period, capacity, burst] =
      std::to_array({numbers[0], numbers[1], numbers[2], numbers[3]});
  checks::require(rate > 0 && rate < kExact, "rate", rate, "from 1 to 2^53 - 1 with a burst");
  checks::require_period("per", period);
  checks::require_count("capacity", capacity);
  checks::require(burst > 0 && burst < kExact, "burst", burst, "from 1 to 2^53 - 1");
  const std::int64_t common = std::gcd(rate, period);
  const std::int64_t units = period / common;
  checks::require(burst + capacity < kExact && product(burst + capacity, units) < kExact, "capacity",
                  capacity, "such that burst + capacity is below 2^53 when counted in units");
  const auto bucket = std::to_array<std::int64_t>({burst + capacity, period, units, rate / common, 1, 0, 0});
  return {TokenBucket::make(bucket), capacity};
}

/// `burst` go at once; those behind them when as many have drained as are over it.
constexpr Duration delay(const PacedLeakyBucket& bucket, const PacedLeakyBucket::State& state, Instant now) {
  if (state.used <= bucket.at_once()) return {};
  return max(Duration{}, bucket.refilled_at(state.last, state.used - bucket.at_once()) - now);
}

/// Nothing is leased: what one process spends early, others would wait for.
constexpr Duration longest_lease(const PacedLeakyBucket& /*bucket*/) { return {}; }

}  // namespace overlimit
