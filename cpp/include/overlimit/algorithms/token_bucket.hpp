// Token bucket, refilled continuously: `burst` tokens at most, full at first use. One token is `units`
// units and `refill` of them come back per microsecond, so that every rate is a pair of integers.
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <string_view>

#include "overlimit/algorithms/step.hpp"

namespace overlimit {

struct TokenBucket {
  static constexpr std::string_view kName = "token_bucket";

  /// Units used up at the instant `last`, counted in the units per token of that time.
  struct State {
    std::int64_t used;
    Micros last;
    std::int64_t units;
  };

  std::int64_t burst;
  Micros period;
  std::int64_t units;   ///< units per token
  std::int64_t refill;  ///< units per microsecond; 0 only when burst is 0

  /// From (burst, period_us, units per token, units per microsecond). Throws InvalidLimit.
  static TokenBucket make(std::span<const std::int64_t> numbers);
  [[nodiscard]] std::array<std::int64_t, 1> identity() const { return {period}; }
  [[nodiscard]] std::array<std::int64_t, 3> packed() const { return {burst, units, refill}; }
  [[nodiscard]] Cost most() const { return burst; }
  [[nodiscard]] std::int64_t max_cells() const { return 0; }
  /// `used` of a record whose tokens were worth other units, rounded up, saturating.
  [[nodiscard]] std::int64_t rescaled(const State& state) const;
};
static_assert(kIsState<TokenBucket::State>);

constexpr Micros clamp(const TokenBucket&, const TokenBucket::State& state) { return state.last; }

inline std::optional<Standing<TokenBucket::State>> advance(const TokenBucket& bucket,
                                                           const TokenBucket::State& state, const Cells&,
                                                           Micros now) {
  const std::int64_t used = state.units == bucket.units ? state.used : bucket.rescaled(state);
  const std::int64_t left = used - product(bucket.refill, now - state.last);
  if (left <= 0 || bucket.refill == 0) return std::nullopt;
  return Standing<TokenBucket::State>{{left, now, bucket.units}};
}

inline Verdict admit(const TokenBucket& bucket, const std::optional<Standing<TokenBucket::State>>& standing,
                     const Cells&, Micros, Cost cost) {
  if (cost > bucket.burst) return kNeverAdmitted;
  if (!standing) return kAdmitted;
  const std::int64_t need = standing->state.used - (bucket.burst - cost) * bucket.units;
  return need <= 0 ? kAdmitted : over(ceil_div(need, bucket.refill));
}

inline Charged<TokenBucket::State> charge(const TokenBucket& bucket,
                                          const std::optional<Standing<TokenBucket::State>>& standing,
                                          Micros now, Cost cost) {
  const std::int64_t used = standing ? standing->state.used : 0;
  return {{used + cost * bucket.units, now, bucket.units}};
}

inline std::int64_t remaining(const TokenBucket& bucket, const TokenBucket::State& state) {
  return std::max<std::int64_t>(0, (bucket.burst * bucket.units - state.used) / bucket.units);
}

inline Micros expires_at(const TokenBucket& bucket, const TokenBucket::State& state, const Cells&) {
  return later(state.last, ceil_div(state.used, bucket.refill));
}

}  // namespace overlimit
