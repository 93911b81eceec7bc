// Sliding log: exactly `limit` in any interval of `period`. Every charge is kept with its instant until it is
// older than the period.
#pragma once

#include <span>
#include <string_view>

#include "overlimit/algorithms/checks.hpp"
#include "overlimit/algorithms/history.hpp"

namespace overlimit {

struct SlidingLog {
  static constexpr std::string_view kName = "sliding_log";
  static constexpr std::int64_t kMaxLimit = 10'000;

  /// The cells are entries: an instant, and what was charged at it.
  using State = History;

  std::int64_t limit;
  Duration period;

  /// From (limit, period_us). Throws InvalidLimit naming the number.
  static SlidingLog make(std::span<const std::int64_t> numbers);
  [[nodiscard]] std::array<std::int64_t, 1> identity() const { return {period.micros()}; }
  [[nodiscard]] std::array<std::int64_t, 2> packed() const { return {limit, period.micros()}; }
  [[nodiscard]] constexpr Cost most() const { return limit; }
  [[nodiscard]] std::int64_t max_cells() const { return limit; }
  [[nodiscard]] constexpr std::int64_t cell_of(Instant now) const { return now.micros(); }
  [[nodiscard]] constexpr std::int64_t oldest(Instant now) const { return (now - period).micros() + 1; }
  [[nodiscard]] constexpr Instant leaves_at(std::int64_t entry) const {
    return later(Instant(entry), period);
  }
};

inline SlidingLog SlidingLog::make(std::span<const std::int64_t> numbers) {
  checks::require_numbers(numbers, 2, kName);
  checks::require(numbers[0] >= 0 && numbers[0] <= kMaxLimit, "limit", numbers[0], "from 0 to 10,000");
  checks::require_period("per", numbers[1]);
  return {numbers[0], Duration(numbers[1])};
}

constexpr Instant time_of(const SlidingLog&, const SlidingLog::State& state) { return Instant(state.newest); }

constexpr Instant expires_at(const SlidingLog& log, const SlidingLog::State& state, const Cells&) {
  return log.leaves_at(state.newest);
}

constexpr Duration longest_lease(const SlidingLog&) { return {}; }
constexpr Instant same_until(const SlidingLog&, const SlidingLog::State&) { return {}; }

}  // namespace overlimit
