// Fixed window: at most `limit` per window of `period`. The window opens at the first charge, or at a
// multiple of the period since the epoch. Up to twice the limit may pass around a boundary.
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <string_view>

#include "overlimit/algorithms/step.hpp"

namespace overlimit {

struct FixedWindow {
  static constexpr std::string_view kName = "fixed_window";
  enum class Start : std::uint8_t { first, epoch };

  /// The window [start, end) and what was charged in it.
  struct State {
    Micros start;
    Micros end;
    std::int64_t count;
  };

  std::int64_t limit;
  Micros period;
  Start start;

  /// From (limit, period_us, start: 0 first | 1 epoch). Throws InvalidLimit naming the number.
  static FixedWindow make(std::span<const std::int64_t> numbers);
  /// What tells its records from those of another limit: period and start, not the limit itself.
  [[nodiscard]] std::array<std::int64_t, 2> identity() const { return {period, std::int64_t(start)}; }
  /// What its script reads, in this order.
  [[nodiscard]] std::array<std::int64_t, 3> packed() const { return {limit, period, std::int64_t(start)}; }
  [[nodiscard]] Cost most() const { return limit; }
  [[nodiscard]] std::int64_t max_cells() const { return 0; }
};
static_assert(kIsState<FixedWindow::State>);

constexpr Micros clamp(const FixedWindow&, const FixedWindow::State& state) { return state.start; }

constexpr std::optional<Standing<FixedWindow::State>> advance(const FixedWindow& window,
                                                              const FixedWindow::State& state, const Cells&,
                                                              Micros now) {
  if (now >= state.end || state.end - state.start != window.period) return std::nullopt;
  return Standing<FixedWindow::State>{state};
}

constexpr Verdict admit(const FixedWindow& window,
                        const std::optional<Standing<FixedWindow::State>>& standing, const Cells&, Micros now,
                        Cost cost) {
  if (cost > window.limit) return kNeverAdmitted;
  if (!standing || cost <= window.limit - standing->state.count) return kAdmitted;
  return over(standing->state.end - now);
}

constexpr Charged<FixedWindow::State> charge(const FixedWindow& window,
                                             const std::optional<Standing<FixedWindow::State>>& standing,
                                             Micros now, Cost cost) {
  if (standing) {
    const FixedWindow::State& state = standing->state;
    return {{state.start, state.end, state.count + cost}};
  }
  const Micros start = window.start == FixedWindow::Start::first ? now : now - now % window.period;
  return {{start, start + window.period, cost}};
}

constexpr std::int64_t remaining(const FixedWindow& window, const FixedWindow::State& state) {
  return std::max<std::int64_t>(0, window.limit - state.count);
}

constexpr Micros expires_at(const FixedWindow&, const FixedWindow::State& state, const Cells&) {
  return state.end;
}

}  // namespace overlimit
