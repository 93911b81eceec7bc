// Token bucket: `burst` tokens at most, full at first use. One token is `units` units, and `refill` of them
// come back every `every` microseconds: a rate is a pair of integers. A bucket that refills continuously has
// `every` = 1; one that refills at intervals counts whole intervals from its phase on. With `debt`, a call
// may overdraw the bucket by that many tokens, and later callers wait until they have come back.
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "overlimit/algorithms/bucket_refund.hpp"
#include "overlimit/algorithms/checks.hpp"
#include "overlimit/algorithms/holds.hpp"
#include "overlimit/algorithms/step.hpp"

namespace overlimit {

struct TokenBucket {
  static constexpr std::string_view kName = "token_bucket";
  enum class Start : std::uint8_t { first, epoch };

  /// Units used up at the instant `last`, and what refunds have given back, counted on from the units per
  /// token of that time. Where these two differ, a note keeps the units. Holds that have passed count as
  /// given back, too (docs/semantics.md). A record with holds has the note first, then them.
  struct State {
    std::int64_t used;
    Instant last;
    std::int64_t refunded;
  };

  std::int64_t burst;
  Duration period;
  std::int64_t units;   ///< units per token
  std::int64_t refill;  ///< units that come back at once; 0 only when burst is 0
  Duration every;       ///< how often they do
  Start start;          ///< of the intervals: a full bucket's first charge, or the epoch
  std::int64_t debt;    ///< tokens

  /// From (burst, period_us, units per token, units that come back every_us, every_us, start: 0 first | 1
  /// epoch, debt). Throws InvalidLimit naming the number.
  static TokenBucket make(std::span<const std::int64_t> numbers);
  [[nodiscard]] std::array<std::int64_t, 3> identity() const {
    return {period.micros(), every.micros(), std::int64_t(start)};
  }
  [[nodiscard]] std::array<std::int64_t, 6> packed() const {
    return {burst, debt, units, refill, every.micros(), std::int64_t(start)};
  }
  [[nodiscard]] constexpr Cost most() const { return burst + debt; }
  [[nodiscard]] std::int64_t max_cells() const { return 0; }
  /// The phase of a bucket that is charged while full.
  [[nodiscard]] constexpr Instant phase(Instant now) const {
    return start == Start::epoch ? now - now.since_epoch() % every : now;
  }
  /// What has come back between two instants.
  [[nodiscard]] constexpr std::int64_t refilled(Instant from, Instant to) const {
    return product(refill, (to - from) / every);
  }
  /// When this many units have come back since an instant of the phase. Without a rate, nothing is kept.
  [[nodiscard]] constexpr Instant refilled_at(Instant from, std::int64_t amount) const {
    if (refill == 0) return from;
    return later(from, product(ceil_div(amount, refill), every));
  }
};
static_assert(kIsState<TokenBucket::State>);

inline TokenBucket TokenBucket::make(std::span<const std::int64_t> numbers) {
  checks::require_numbers(numbers, 7, kName);
  const auto [burst, period, units, refill, every, start, debt] =
      std::to_array({numbers[0], numbers[1], numbers[2], numbers[3], numbers[4], numbers[5], numbers[6]});
  checks::require_count("burst", burst);
  checks::require_period("per", period);
  checks::require(units > 0 && units < kExact, "units", units, "from 1 to 2^53 - 1");
  checks::require(refill >= 0 && refill < kExact, "refill", refill, "from 0 to 2^53 - 1");
  checks::require(every == 1 || every == period, "every", every, "1 (continuous) or the period (interval)");
  checks::require(start == 0 || (start == 1 && every == period), "start", start,
                  "0 (first), or 1 (epoch) for intervals");
  checks::require_count("debt", debt);
  checks::require(burst + debt < kExact && product(burst + debt, units) < kExact, debt > 0 ? "debt" : "burst",
                  debt > 0 ? debt : burst, "such that burst + debt is below 2^53 when counted in units");
  checks::require(refill > 0 || burst + debt == 0, "rate", refill, "above 0 when burst or debt is");
  return {burst, Duration(period), units, refill, Duration(every), Start(start), debt};
}

/// The units per token that a record is counted in; 0 for one that no bucket has written.
inline std::int64_t units_of(const TokenBucket::State& state, const Cells& cells) {
  if (cells.size() == 0) return state.refunded;
  const std::int64_t note = cells[0].count;
  return note < 0 && note >= -state.refunded ? -note : 0;
}

constexpr bool knows_refunds(const TokenBucket& bucket, const TokenBucket::State& state) {
  return state.refunded != bucket.units && state.refunded != bucket::kUnknown;
}

constexpr bool drains_faster(const TokenBucket& one, const TokenBucket& other) {
  __extension__ using Wide = __int128;
  return Wide(one.refill) * other.units > Wide(other.refill) * one.units;
}

inline std::optional<TokenBucket::State> state_after(const TokenBucket& bucket, const TokenBucket& charged,
                                                     const TokenBucket::State& then, Cost cost) {
  if (product(cost, bucket.units) >= kExact) return std::nullopt;
  const std::int64_t used = multiply_divide(then.used, bucket.units, charged.units, charged.units - 1);
  return {{used, then.last, bucket.units == charged.units ? then.refunded : bucket::kUnknown}};
}

constexpr Instant time_of(const TokenBucket&, const TokenBucket::State& state) { return state.last; }

/// Only continuous buckets hold anything.
inline bool has_holds(const TokenBucket& bucket, const Cells& cells) {
  return Holds::are_in(cells) && bucket.every == kMicrosecond;
}

/// What a record holds, in the bucket's units.
inline Holds holds_of(const TokenBucket& bucket, const TokenBucket::State& state, const Cells& cells) {
  return {cells, state.last, units_of(state, cells), bucket.units};
}

/// The first instant at which no more than `most` of a record with holds is used, after what has drained.
inline Instant drained_to(const TokenBucket& bucket, const TokenBucket::State& state, const Cells& cells,
                          std::int64_t most) {
  Instant at = state.used > most ? bucket.refilled_at(state.last, state.used - most) : state.last;
  holds_of(bucket, state, cells).for_each([&](Instant until, std::int64_t, std::int64_t floor) {
    if (floor > most) at = max(at, bucket.refilled_at(until, floor - most));
  });
  return at;
}

/// What would be left at `now` of a record that counts in `units` per token if it held nothing; with holds,
/// usage does not drain below them.
[[gnu::always_inline]] inline TokenBucket::State drained(const TokenBucket& bucket,
                                                         const TokenBucket::State& state, std::int64_t units,
                                                         Instant now) {
  auto [used, last, refunded] = state;
  if (units != bucket.units) {
    used = multiply_divide(used, bucket.units, units, units - 1);
    refunded = bucket::kUnknown;
  }
  return {used - bucket.refilled(last, now), now - (now - last) % bucket.every, refunded};
}

[[gnu::always_inline]] inline Current<TokenBucket> current_of(const TokenBucket& bucket,
                                                              const TokenBucket::State& left, Instant now) {
  if (bucket.refill == 0) return std::nullopt;
  if (left.used > 0) return CurrentRecord<TokenBucket::State>{left};
  if (left.refunded == bucket.units) return std::nullopt;
  return CurrentRecord<TokenBucket::State>{{0, bucket.phase(now), left.refunded}};
}

/// A record with a note, and perhaps holds: those that have passed count as given back.
inline Current<TokenBucket> advance_noted(const TokenBucket& bucket, const TokenBucket::State& state,
                                          const Cells& cells, Instant now) {
  TokenBucket::State left = drained(bucket, state, units_of(state, cells), now);
  if (has_holds(bucket, cells)) {
    holds_of(bucket, state, cells).for_each([&](Instant until, std::int64_t units, std::int64_t floor) {
      left.used = std::max(left.used, until > now ? floor : floor - bucket.refilled(until, now));
      if (until <= now) left.refunded = bucket::with_refund(left.refunded, units);
    });
  }
  return current_of(bucket, left, now);
}

inline Current<TokenBucket> advance(const TokenBucket& bucket, const TokenBucket::State& state,
                                    const Cells& cells, Instant now) {
  if (cells.size() != 0) [[unlikely]]
    return advance_noted(bucket, state, cells, now);
  return current_of(bucket, drained(bucket, state, state.refunded, now), now);
}

inline Verdict admit(const TokenBucket& bucket, const Current<TokenBucket>& current, const Cells& cells,
                     Instant now, Cost cost) {
  if (cost > bucket.most()) return kNeverAdmitted;
  if (!current) return kAdmitted;
  const std::int64_t room = std::min(bucket.burst, bucket.most() - cost) * bucket.units;
  const std::int64_t need = current->state.used - room;
  if (need <= 0) return kAdmitted;
  if (has_holds(bucket, cells)) [[unlikely]]
    return over(drained_to(bucket, current->state, cells, room) - now);
  return over(bucket.refilled_at(current->state.last, need) - now);
}

inline Charged<TokenBucket> charge(const TokenBucket& bucket, const Current<TokenBucket>& current,
                                   Instant now, Cost cost) {
  const std::int64_t charge = product(cost, bucket.units);
  if (!current) return {{bucket.refill > 0 ? sum(0, charge) : 0, bucket.phase(now), bucket.units}, SIZE_MAX};
  const TokenBucket::State& state = current->state;
  const std::int64_t used = sum(state.used, charge);
  if (state.refunded == bucket.units) return {{used, state.last, state.refunded}, SIZE_MAX};
  return {{used, state.last, state.refunded}, SIZE_MAX, Cell{0, -bucket.units}};
}

/// The cells after a charge at `now` of a record with holds: the note, and what is still held.
inline std::vector<Cell> cells_after_charge(const TokenBucket& bucket, const TokenBucket::State& state,
                                            const Cells& cells, Instant now) {
  std::vector<Cell> kept;
  holds_of(bucket, state, cells).for_each([&](Instant until, std::int64_t units, std::int64_t) {
    if (until > now) kept.push_back({until.micros(), units});
  });
  kept.push_back({0, -bucket.units});
  std::ranges::reverse(kept);
  return kept;
}

/// Given back in the record's own units, rounded down. What is held is not given back, and what was held
/// right after the charge was not there to drain: it is still in a cell, or counted where it has passed.
/// Nothing is given back of a charge of a bucket that had no rate, which kept nothing of it.
inline Refunded<TokenBucket> refund(const TokenBucket& bucket, const TokenBucket::State& state,
                                    const Cells& cells, const TokenBucket::State& then, Instant now,
                                    Cost cost) {
  const std::int64_t units = units_of(state, cells);
  const std::int64_t sum = units == bucket.units ? state.refunded : bucket::kUnknown;
  const std::int64_t drained = bucket.refilled(min(then.last, now), now);
  if (then.used == 0 || is_saturated(std::max(state.used, then.used))) return std::nullopt;
  const bool holds = has_holds(bucket, cells);
  const std::int64_t held = holds ? Holds(cells, state.last, units, units).total() : 0;
  std::int64_t given =
      bucket::given_back(product(cost, bucket.units), then.used - held, drained, sum, then.refunded);
  if (units != bucket.units) given = multiply_divide(given, units, bucket.units, 0);
  if (held > 0) given = std::min(given, std::max<std::int64_t>(0, state.used - held));
  if (given == 0) return std::nullopt;
  RefundedRecord<TokenBucket::State> refunded{{std::max<std::int64_t>(0, state.used - given), state.last,
                                               bucket::with_refund(state.refunded, given)}};
  if (!holds) refunded.note = Cell{0, -units};
  return refunded;
}

inline std::int64_t remaining(const TokenBucket& bucket, const TokenBucket::State& state, Instant) {
  return std::max<std::int64_t>(0, (bucket.burst * bucket.units - state.used) / bucket.units);
}

inline Instant expires_at(const TokenBucket& bucket, const TokenBucket::State& state, const Cells& cells) {
  if (has_holds(bucket, cells)) [[unlikely]]
    return drained_to(bucket, state, cells, 0);
  return bucket.refilled_at(state.last, state.used);
}

/// A bucket that is held for longer than such a part of the time in which it fills drains too late.
inline constexpr std::int64_t kPartOfFilling = 10;

constexpr Duration longest_lease(const TokenBucket& bucket) {
  if (bucket.debt > 0 || bucket.refill == 0) return {};
  if (bucket.every != kMicrosecond) return bucket.every;
  return min(kLongestHold, Duration(product(bucket.burst, bucket.units) / bucket.refill / kPartOfFilling));
}
constexpr Instant same_until(const TokenBucket& bucket, const TokenBucket::State& state) {
  return bucket.every == kMicrosecond ? kMaxTime : state.last + bucket.every;
}
constexpr bool holds_leases(const TokenBucket& bucket) { return bucket.every == kMicrosecond; }
constexpr TokenBucket::State without_charge(const TokenBucket& bucket, TokenBucket::State charged,
                                            Cost cost) {
  charged.used -= product(cost, bucket.units);
  return charged;
}

}  // namespace overlimit
