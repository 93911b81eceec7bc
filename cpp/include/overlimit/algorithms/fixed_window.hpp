// Fixed window: at most `limit` per window of `period`. The window opens at the first charge, at a multiple
// of the period since the epoch, or where a period of the calendar begins. Up to twice the limit may pass
// around a boundary.
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <string_view>

#include "overlimit/algorithms/checks.hpp"
#include "overlimit/algorithms/step.hpp"
#include "overlimit/calendar.hpp"

namespace overlimit {

struct FixedWindow {
  static constexpr std::string_view kName = "fixed_window";
  enum class Start : std::uint8_t { first, epoch, calendar };

  /// The window [start, end) and what was charged in it.
  struct State {
    Instant start;
    Instant end;
    std::int64_t count;
  };

  std::int64_t limit;
  Duration period;  ///< 0 for a calendar's
  Start start;
  Bounds bounds{};  ///< of the calendar, around the instants at which this limit decides

  /// From (limit, period_us, start: 0 first | 1 epoch | 2 calendar). Throws InvalidLimit naming the number.
  static FixedWindow make(std::span<const std::int64_t> numbers);
  /// What tells its records from those of another limit: period and start, not the limit itself.
  [[nodiscard]] std::array<std::int64_t, 2> identity() const {
    return {period.micros(), std::int64_t(start)};
  }
  /// What its script reads, in this order.
  [[nodiscard]] std::array<std::int64_t, 6> packed() const {
    return {limit,
            period.micros(),
            std::int64_t(start),
            bounds[0].micros(),
            bounds[1].micros(),
            bounds[2].micros()};
  }
  [[nodiscard]] constexpr Cost most() const { return limit; }
  [[nodiscard]] std::int64_t max_cells() const { return 0; }
  /// Whether it can have opened such a window. Natural periods differ in length, but none is longer than two
  /// of its kind.
  [[nodiscard]] constexpr bool has(const State& state) const {
    const Duration length = state.end - state.start;
    return start == Start::calendar ? length > Duration{} && length <= bounds[2] - bounds[0]
                                    : length == period;
  }
};
static_assert(kIsState<FixedWindow::State>);

inline FixedWindow FixedWindow::make(std::span<const std::int64_t> numbers) {
  checks::require_numbers(numbers, 3, kName);
  checks::require_count("limit", numbers[0]);
  checks::require(numbers[2] >= 0 && numbers[2] <= 2, "start", numbers[2],
                  "0 (first), 1 (epoch) or 2 (calendar)");
  const Start start{static_cast<std::uint8_t>(numbers[2])};
  if (start == Start::calendar) {
    checks::require(numbers[1] == 0, "per", numbers[1],
                    "0 for a calendar's window, which has its periods from there");
  } else {
    checks::require_period("per", numbers[1]);
  }
  return {numbers[0], Duration(numbers[1]), start};
}

constexpr Instant time_of(const FixedWindow& window, const FixedWindow::State& state) {
  return window.has(state) ? state.start : kMaxTime;
}

constexpr Current<FixedWindow> advance(const FixedWindow&, const FixedWindow::State& state, const Cells&,
                                       Instant now) {
  if (now >= state.end) return std::nullopt;
  return CurrentRecord<FixedWindow::State>{state};
}

constexpr Verdict admit(const FixedWindow& window, const Current<FixedWindow>& current, const Cells&,
                        Instant now, Cost cost) {
  if (cost > window.limit) return kNeverAdmitted;
  if (!current || cost <= window.limit - current->state.count) return kAdmitted;
  return over(current->state.end - now);
}

/// The window that opens at this instant, empty.
constexpr FixedWindow::State opened(const FixedWindow& window, Instant now) {
  if (window.start == FixedWindow::Start::calendar) {
    const auto& [start, middle, end] = window.bounds;
    return now < middle ? FixedWindow::State{start, middle, 0} : FixedWindow::State{middle, end, 0};
  }
  const Instant start =
      window.start == FixedWindow::Start::first ? now : now - now.since_epoch() % window.period;
  return {start, start + window.period, 0};
}

constexpr Charged<FixedWindow> charge(const FixedWindow& window, const Current<FixedWindow>& current,
                                      Instant now, Cost cost) {
  const FixedWindow::State state = current ? current->state : opened(window, now);
  return {{state.start, state.end, sum(state.count, cost)}};
}

constexpr Refunded<FixedWindow> refund(const FixedWindow&, const FixedWindow::State& state, const Cells&,
                                       const FixedWindow::State& then, Instant, Cost cost) {
  if (state.start != then.start || is_saturated(state.count)) return std::nullopt;
  return RefundedRecord<FixedWindow::State>{{state.start, state.end, std::max<Cost>(0, state.count - cost)}};
}

constexpr std::int64_t remaining(const FixedWindow& window, const FixedWindow::State& state, Instant) {
  return std::max<std::int64_t>(0, window.limit - state.count);
}

constexpr Instant expires_at(const FixedWindow&, const FixedWindow::State& state, const Cells&) {
  return state.end;
}

constexpr Duration longest_lease(const FixedWindow& window) {
  return window.start == FixedWindow::Start::calendar ? kLongestHold : window.period;
}
constexpr Instant same_until(const FixedWindow&, const FixedWindow::State& state) { return state.end; }

}  // namespace overlimit
