// Sliding window counter: two windows aligned to the epoch, of which the previous one counts for the part of
// it that a sliding window would still cover. An approximation: it takes the previous window's charges for
// evenly spread. All of it is in doubles, in the order written, so that C++ and Lua agree to the bit.
#pragma once

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <string_view>

#include "overlimit/algorithms/checks.hpp"
#include "overlimit/algorithms/step.hpp"

namespace overlimit {

struct SlidingWindowCounter {
  static constexpr std::string_view kName = "sliding_window_counter";

  /// What was charged in the window from `start` on, and in the one before it.
  struct State {
    Instant start;
    std::int64_t previous;
    std::int64_t current;
  };

  std::int64_t limit;
  Duration period;

  /// From (limit, period_us). Throws InvalidLimit naming the number.
  static SlidingWindowCounter make(std::span<const std::int64_t> numbers);
  [[nodiscard]] std::array<std::int64_t, 1> identity() const { return {period.micros()}; }
  [[nodiscard]] std::array<std::int64_t, 2> packed() const { return {limit, period.micros()}; }
  [[nodiscard]] constexpr Cost most() const { return limit; }
  [[nodiscard]] std::int64_t max_cells() const { return 0; }
  /// The counts as they weigh at an instant of the state's own window.
  [[nodiscard]] double weight(const State& state, Instant now) const {
    return double(state.previous) * double((period - (now - state.start)).micros()) /
               double(period.micros()) +
           double(state.current);
  }
  [[nodiscard]] bool fits(const State& state, Instant now, Cost cost) const {
    return weight(state, now) + double(cost) <= double(limit);
  }
};
static_assert(kIsState<SlidingWindowCounter::State>);

inline SlidingWindowCounter SlidingWindowCounter::make(std::span<const std::int64_t> numbers) {
  checks::require_numbers(numbers, 2, kName);
  checks::require_count("limit", numbers[0]);
  checks::require_period("per", numbers[1]);
  return {numbers[0], Duration(numbers[1])};
}

constexpr Instant time_of(const SlidingWindowCounter& counter, const SlidingWindowCounter::State& state) {
  return state.start.since_epoch() % counter.period == Duration{} ? state.start : kMaxTime;
}

inline Current<SlidingWindowCounter> advance(const SlidingWindowCounter& counter,
                                             const SlidingWindowCounter::State& state, const Cells&,
                                             Instant now) {
  const Instant start = now - now.since_epoch() % counter.period;
  SlidingWindowCounter::State here{start, 0, 0};
  if (start == state.start) here = state;
  if (start == state.start + counter.period) here.previous = state.current;
  if (here.previous == 0 && here.current == 0) return std::nullopt;
  return CurrentRecord<SlidingWindowCounter::State>{here};
}

/// The first instant from `first` to `last` at which the cost fits; it fits at the last.
inline Instant first_fit(const SlidingWindowCounter& counter, const SlidingWindowCounter::State& state,
                         Instant first, Instant last, Cost cost) {
  while (first < last) {
    const Instant middle = first + (last - first) / 2;
    if (counter.fits(state, middle, cost)) {
      last = middle;
    } else {
      first = middle + kMicrosecond;
    }
  }
  return first;
}

/// When a cost that does not fit now will: in this window, in the next, or at the start of the one after.
[[gnu::noinline]] inline Instant fits_at(const SlidingWindowCounter& counter,
                                         const SlidingWindowCounter::State& state, Instant now, Cost cost) {
  const Instant next = state.start + counter.period;
  if (counter.fits(state, next - kMicrosecond, cost))
    return first_fit(counter, state, now, next - kMicrosecond, cost);
  const SlidingWindowCounter::State after{next, state.current, 0};
  const Instant end = next + counter.period;
  return counter.fits(after, end - kMicrosecond, cost)
             ? first_fit(counter, after, next, end - kMicrosecond, cost)
             : end;
}

inline Verdict admit(const SlidingWindowCounter& counter, const Current<SlidingWindowCounter>& current,
                     const Cells&, Instant now, Cost cost) {
  if (cost > counter.limit) return kNeverAdmitted;
  if (!current || counter.fits(current->state, now, cost)) return kAdmitted;
  return over(fits_at(counter, current->state, now, cost) - now);
}

inline Charged<SlidingWindowCounter> charge(const SlidingWindowCounter& counter,
                                            const Current<SlidingWindowCounter>& current, Instant now,
                                            Cost cost) {
  if (!current) return {{now - now.since_epoch() % counter.period, 0, sum(0, cost)}};
  const SlidingWindowCounter::State& state = current->state;
  return {{state.start, state.previous, sum(state.current, cost)}};
}

/// The window that was charged may be the current one by now, or the previous.
inline Refunded<SlidingWindowCounter> refund(const SlidingWindowCounter& counter,
                                             const SlidingWindowCounter::State& state, const Cells&,
                                             const SlidingWindowCounter::State& then, Instant, Cost cost) {
  SlidingWindowCounter::State left = state;
  const bool is_current = state.start == then.start;
  if (!is_current && state.start != then.start + counter.period) return std::nullopt;
  std::int64_t& charged = is_current ? left.current : left.previous;
  if (is_saturated(charged)) return std::nullopt;
  charged = std::max<Cost>(0, charged - cost);
  return RefundedRecord<SlidingWindowCounter::State>{left};
}

inline std::int64_t remaining(const SlidingWindowCounter& counter, const SlidingWindowCounter::State& state,
                              Instant now) {
  return std::max<std::int64_t>(0,
                                std::int64_t(std::floor(double(counter.limit) - counter.weight(state, now))));
}

constexpr Instant expires_at(const SlidingWindowCounter& counter, const SlidingWindowCounter::State& state,
                             const Cells&) {
  if (state.current > 0) return later(state.start, 2 * counter.period);
  return state.previous > 0 ? later(state.start, counter.period) : Instant{};
}

constexpr Duration longest_lease(const SlidingWindowCounter& counter) { return counter.period; }
constexpr Instant same_until(const SlidingWindowCounter& counter, const SlidingWindowCounter::State& state) {
  return state.start + counter.period;
}

}  // namespace overlimit
