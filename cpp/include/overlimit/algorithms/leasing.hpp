// For how long a charge counts the same whenever it is made, so that units charged early may be spent later
// (docs/semantics.md: leases).
#pragma once

#include <algorithm>
#include <string_view>

#include "overlimit/algorithms/fixed_window.hpp"
#include "overlimit/algorithms/holds.hpp"
#include "overlimit/algorithms/leaky_bucket.hpp"
#include "overlimit/algorithms/sliding_log.hpp"
#include "overlimit/algorithms/sliding_window.hpp"
#include "overlimit/algorithms/sliding_window_counter.hpp"
#include "overlimit/algorithms/token_bucket.hpp"

namespace overlimit::leasing {

/// No end that the algorithm sets.
inline constexpr Duration kUnbounded = kLongestHold;

/// A bucket that is held for longer than such a part of the time in which it fills drains too late.
inline constexpr std::int64_t kPartOfFilling = 10;

/// How long it is at the longest; 0 for a limit whose units cannot be charged early.
constexpr Duration longest(const FixedWindow& window) {
  return window.start == FixedWindow::Start::calendar ? kUnbounded : window.period;
}
constexpr Duration longest(const SlidingWindow& window) { return window.precision; }
constexpr Duration longest(const SlidingWindowCounter& counter) { return counter.period; }
constexpr Duration longest(const SlidingLog&) { return {}; }
constexpr Duration longest(const LeakyBucket& bucket) { return bucket.period; }
constexpr Duration longest(const TokenBucket& bucket) {
  if (bucket.debt > 0 || bucket.refill == 0) return {};
  if (bucket.every != kMicrosecond) return bucket.every;
  return min(kUnbounded, Duration(product(bucket.burst, bucket.units) / bucket.refill / kPartOfFilling));
}

/// The most that can be charged early at once.
constexpr Cost most(const LeakyBucket& bucket) { return std::min(bucket.rate, bucket.most()); }
constexpr Cost most(const auto& limit) { return limit.most(); }

/// Until when it is, after a charge that led to this state; a continuous bucket's record holds what is
/// leased.
constexpr Instant until(const FixedWindow&, const FixedWindow::State& state) { return state.end; }
constexpr Instant until(const SlidingWindow& window, const SlidingWindow::State& state) {
  return Instant{} + product(state.newest + 1, window.precision);
}
constexpr Instant until(const SlidingWindowCounter& counter, const SlidingWindowCounter::State& state) {
  return state.start + counter.period;
}
constexpr Instant until(const SlidingLog&, const SlidingLog::State&) { return {}; }
constexpr Instant until(const LeakyBucket& bucket, const LeakyBucket::State& state) {
  return state.start + bucket.period;
}
constexpr Instant until(const TokenBucket& bucket, const TokenBucket::State& state) {
  return bucket.every == kMicrosecond ? kMaxTime : state.last + bucket.every;
}

}  // namespace overlimit::leasing
