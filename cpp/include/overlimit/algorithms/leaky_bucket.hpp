// Leaky bucket: a queue that lets `rate` callers go every `period` and holds `capacity` more. An admitted
// caller is told how long to wait for its turn.
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <string_view>

#include "overlimit/algorithms/bucket_refund.hpp"
#include "overlimit/algorithms/checks.hpp"
#include "overlimit/algorithms/step.hpp"

namespace overlimit {

struct LeakyBucket {
  static constexpr std::string_view kName = "leaky_bucket";

  /// How many are in the queue in the period that began at `start`, and what refunds have given back.
  struct State {
    Instant start;
    std::int64_t count;
    std::int64_t refunded;
  };

  std::int64_t rate;
  Duration period;
  std::int64_t capacity;

  /// From (rate, period_us, capacity). Throws InvalidLimit naming the number.
  static LeakyBucket make(std::span<const std::int64_t> numbers);
  [[nodiscard]] std::array<std::int64_t, 1> identity() const { return {period.micros()}; }
  [[nodiscard]] std::array<std::int64_t, 3> packed() const { return {rate, period.micros(), capacity}; }
  [[nodiscard]] constexpr Cost most() const { return capacity + rate; }
  [[nodiscard]] std::int64_t max_cells() const { return {}; }
  /// What has gone between two instants.
  [[nodiscard]] constexpr std::int64_t drained(Instant from, Instant to) const {
    return product(rate, (to - from) / period);
  }
  /// When this many have gone since an instant of the phase. A queue that lets nobody go keeps no count.
  [[nodiscard]] constexpr Instant drained_at(Instant from, std::int64_t amount) const {
    if (rate == 0) return from;
    return later(from, product(ceil_div(amount, rate), period));
  }
};
static_assert(kIsState<LeakyBucket::State>);

inline LeakyBucket LeakyBucket::make(std::span<const std::int64_t> numbers) {
  checks::require_numbers(numbers, 3, kName);
  const auto [rate, period, capacity] = std::to_array({numbers[0], numbers[1], numbers[2]});
  checks::require_count("rate", rate);
  checks::require_period("per", period);
  checks::require_count("capacity", capacity);
  checks::require(rate + capacity < kExact, "capacity", capacity, "below 2^53 together with the rate");
  checks::require(rate > 0 || capacity == 0, "rate", rate, "above 0 when capacity is");
  return {rate, Duration(period), capacity};
}

constexpr bool knows_refunds(const LeakyBucket&, const LeakyBucket::State& state) {
  return state.refunded != 0 && state.refunded != bucket::kUnknown;
}

constexpr bool drains_faster(const LeakyBucket& one, const LeakyBucket& other) {
  return one.rate > other.rate;
}

constexpr std::optional<LeakyBucket::State> state_after(const LeakyBucket&, const LeakyBucket&,
                                                        const LeakyBucket::State& then, Cost) {
  return then;
}

constexpr Instant time_of(const LeakyBucket&, const LeakyBucket::State& state) { return state.start; }

constexpr Current<LeakyBucket> advance(const LeakyBucket& bucket, const LeakyBucket::State& state,
                                       const Cells&, Instant now) {
  const auto& [start, count, refunded] = state;
  const std::int64_t left = count - bucket.drained(start, now);
  if (bucket.rate == 0) return std::nullopt;
  if (left > 0)
    return CurrentRecord<LeakyBucket::State>{{now - (now - start) % bucket.period, left, refunded}};
  if (refunded == 0) return std::nullopt;
  return CurrentRecord<LeakyBucket::State>{{now, 0, refunded}};
}

constexpr Verdict admit(const LeakyBucket& bucket, const Current<LeakyBucket>& current, const Cells&,
                        Instant now, Cost cost) {
  if (cost > bucket.most()) return kNeverAdmitted;
  if (!current) return kAdmitted;
  const std::int64_t need = current->state.count - (bucket.most() - cost);
  return need <= 0 ? kAdmitted : over(bucket.drained_at(current->state.start, need) - now);
}

constexpr Charged<LeakyBucket> charge(const LeakyBucket&, const Current<LeakyBucket>& current, Instant now,
                                      Cost cost) {
  if (!current) return {{now, sum(0, cost), 0}};
  return {{current->state.start, sum(current->state.count, cost), current->state.refunded}};
}

constexpr Refunded<LeakyBucket> refund(const LeakyBucket& bucket, const LeakyBucket::State& state,
                                       const Cells&, const LeakyBucket::State& then, Instant now, Cost cost) {
  const std::int64_t drained = bucket.drained(min(then.start, now), now);
  if (is_saturated(std::max(state.count, then.count))) return std::nullopt;
  const Cost given = bucket::given_back(cost, then.count, drained, state.refunded, then.refunded);
  return RefundedRecord<LeakyBucket::State>{{state.start, std::max<std::int64_t>(0, state.count - given),
                                             bucket::with_refund(state.refunded, given)}};
}

constexpr std::int64_t remaining(const LeakyBucket& bucket, const LeakyBucket::State& state, Instant) {
  return std::max<std::int64_t>(0, bucket.most() - state.count);
}

constexpr Instant expires_at(const LeakyBucket& bucket, const LeakyBucket::State& state, const Cells&) {
  return bucket.drained_at(state.start, state.count);
}

/// `rate` callers go at once in each period; those after them wait for a later one.
constexpr Duration delay(const LeakyBucket& bucket, const LeakyBucket::State& state, Instant now) {
  if (state.count <= bucket.rate) return {};
  // Times saturate, so beyond what a clock can read nothing is left of the wait.
  return max(Duration{}, bucket.drained_at(state.start, state.count) - now - bucket.period);
}

constexpr Duration longest_lease(const LeakyBucket& bucket) { return bucket.period; }
constexpr Instant same_until(const LeakyBucket& bucket, const LeakyBucket::State& state) {
  return state.start + bucket.period;
}
constexpr Cost most_leased(const LeakyBucket& bucket) { return std::min(bucket.rate, bucket.most()); }

}  // namespace overlimit
