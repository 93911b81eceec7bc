// Sliding log: exactly `limit` in any interval of `period`. Every charge is kept with its instant until it is
// older than the period.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "overlimit/algorithms/checks.hpp"
#include "overlimit/algorithms/history.hpp"

namespace overlimit {

struct SlidingLog {
  static constexpr std::string_view kName = "sliding_log";
  static constexpr std::int64_t kMaxLimit = 10'000;

  /// The cells are entries: an instant, and what was charged at it.
  using State = history::State;

  std::int64_t limit;
  Micros period;

  /// From (limit, period_us). Throws InvalidLimit naming the number.
  static SlidingLog make(std::span<const std::int64_t> numbers);
  [[nodiscard]] std::array<std::int64_t, 1> identity() const { return {period}; }
  [[nodiscard]] std::array<std::int64_t, 2> packed() const { return {limit, period}; }
  [[nodiscard]] constexpr Cost most() const { return limit; }
  [[nodiscard]] std::int64_t max_cells() const { return limit; }
  [[nodiscard]] constexpr Micros cell_of(Micros now) const { return now; }
  [[nodiscard]] constexpr std::int64_t oldest(Micros now) const { return now - period + 1; }
  [[nodiscard]] constexpr Micros leaves_at(Micros entry) const { return later(entry, period); }
};

inline SlidingLog SlidingLog::make(std::span<const std::int64_t> numbers) {
  checks::require_numbers(numbers, 2, kName);
  checks::require(numbers[0] >= 0 && numbers[0] <= kMaxLimit, "limit", numbers[0], "from 0 to 10,000");
  checks::require_period("per", numbers[1]);
  return {numbers[0], numbers[1]};
}

constexpr Micros time_of(const SlidingLog&, const SlidingLog::State& state) { return state.newest; }

inline std::optional<CurrentRecord<SlidingLog::State>> advance(const SlidingLog& log,
                                                               const SlidingLog::State& state,
                                                               const Cells& cells, Micros now) {
  return history::advance(log, state, cells, now);
}

inline Verdict admit(const SlidingLog& log, const std::optional<CurrentRecord<SlidingLog::State>>& current,
                     const Cells& cells, Micros now, Cost cost) {
  return history::admit(log, current, cells, now, cost);
}

inline ChargedRecord<SlidingLog::State> charge(const SlidingLog& log,
                                               const std::optional<CurrentRecord<SlidingLog::State>>& current,
                                               Micros now, Cost cost) {
  return history::charge(log, current, now, cost);
}

inline std::optional<RefundedRecord<SlidingLog::State>> refund(const SlidingLog&,
                                                               const SlidingLog::State& state,
                                                               const Cells& cells,
                                                               const SlidingLog::State& then, Micros,
                                                               Cost cost) {
  return history::refund(state, cells, then, cost);
}

constexpr std::int64_t remaining(const SlidingLog& log, const SlidingLog::State& state, Micros) {
  return std::max<std::int64_t>(0, log.limit - state.total);
}

constexpr Micros expires_at(const SlidingLog& log, const SlidingLog::State& state, const Cells&) {
  return log.leaves_at(state.newest);
}

}  // namespace overlimit
