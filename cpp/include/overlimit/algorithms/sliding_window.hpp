// Sliding window: in no interval of `period` is more than `limit` admitted. Time is cut in blocks of
// `precision`; what was charged in the current block and the period / precision blocks before it counts, so
// the window is exact up to one block, always to the safe side.
#pragma once

#include <span>
#include <string_view>

#include "overlimit/algorithms/checks.hpp"
#include "overlimit/algorithms/history.hpp"

namespace overlimit {

struct SlidingWindow {
  static constexpr std::string_view kName = "sliding_window";
  static constexpr std::int64_t kMaxBlocks = 4096;
  static constexpr std::int64_t kDefaultBlocks = 50;

  /// The cells are blocks.
  using State = History;

  std::int64_t limit;
  Duration precision;
  std::int64_t blocks;  ///< whole blocks in the period

  /// From (limit, period_us, precision_us; 0: default_precision).
  /// Throws InvalidLimit naming the number.
  static SlidingWindow make(std::span<const std::int64_t> numbers);
  /// What a precision of 0 stands for: the period over the most blocks <= kDefaultBlocks that divide it.
  static constexpr Duration default_precision(Duration period) {
    std::int64_t blocks = kDefaultBlocks;
    while (period.micros() % blocks != 0) --blocks;
    return period / blocks;
  }
  [[nodiscard]] std::array<std::int64_t, 2> identity() const {
    return {(blocks * precision).micros(), precision.micros()};
  }
  [[nodiscard]] std::array<std::int64_t, 3> packed() const { return {limit, precision.micros(), blocks}; }
  [[nodiscard]] constexpr Cost most() const { return limit; }
  [[nodiscard]] std::int64_t max_cells() const { return blocks; }
  [[nodiscard]] constexpr std::int64_t cell_of(Instant now) const { return now.since_epoch() / precision; }
  [[nodiscard]] constexpr std::int64_t oldest(Instant now) const { return cell_of(now) - blocks; }
  /// When a block leaves the window: it counts until `blocks` whole blocks have passed after it.
  [[nodiscard]] constexpr Instant leaves_at(std::int64_t block) const {
    return Instant{} + product(sum(block, blocks + 1), precision);
  }
  /// The same of a block that begins at an instant in range: nothing saturates.
  [[nodiscard]] constexpr Instant valid_leaves_at(std::int64_t block) const {
    return Instant(std::int64_t(std::uint64_t(block + blocks + 1) * std::uint64_t(precision.micros())));
  }
};

inline SlidingWindow SlidingWindow::make(std::span<const std::int64_t> numbers) {
  checks::require_numbers(numbers, 3, kName);
  checks::require_count("limit", numbers[0]);
  checks::require_period("per", numbers[1]);
  const Duration period(numbers[1]);
  const Duration precision = numbers[2] == 0 ? default_precision(period) : Duration(numbers[2]);
  const bool divides = precision > Duration{} && period % precision == Duration{};
  checks::require(divides, "precision", precision.micros(), "a whole part of the period, in microseconds");
  checks::require(period / precision <= kMaxBlocks, "precision", precision.micros(),
                  "at least 1/4096 of the period, in microseconds");
  return {numbers[0], precision, period / precision};
}

constexpr Instant time_of(const SlidingWindow& window, const SlidingWindow::State& state) {
  return Instant{} + product(state.newest, window.precision);
}

/// When the newest block with a count leaves: a refund may have emptied the newest.
inline Instant expires_at(const SlidingWindow& window, const SlidingWindow::State& state,
                          const Cells& cells) {
  if (state.count > 0) [[likely]]
    return window.valid_leaves_at(state.newest);
  for (std::size_t i = cells.size(); i-- > 0;) {
    if (cells[i].count > 0) return window.leaves_at(cells[i].at);
  }
  return {};
}

constexpr Duration longest_lease(const SlidingWindow& window) { return window.precision; }
constexpr Instant same_until(const SlidingWindow& window, const SlidingWindow::State& state) {
  return Instant{} + product(state.newest + 1, window.precision);
}

}  // namespace overlimit
