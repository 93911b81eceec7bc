// Sliding window: in no interval of `period` is more than `limit` admitted. Time is cut in blocks of
// `precision`; what was charged in the current block and the period / precision blocks before it counts, so
// the window is exact up to one block, always to the safe side.
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <string_view>

#include "overlimit/algorithms/step.hpp"

namespace overlimit {

struct SlidingWindow {
  static constexpr std::string_view kName = "sliding_window";
  static constexpr std::int64_t kMaxBlocks = 4096;
  static constexpr std::int64_t kDefaultBlocks = 50;

  /// The newest charged block; older blocks that still count are the cells; total is the sum of all.
  struct State {
    std::int64_t newest;
    std::int64_t count;
    std::int64_t total;
  };

  std::int64_t limit;
  Micros precision;
  std::int64_t blocks;  ///< whole blocks in the period

  /// From (limit, period_us, precision_us; 0: the period over the most blocks <= 50 that divide it).
  /// Throws InvalidLimit naming the number.
  static SlidingWindow make(std::span<const std::int64_t> numbers);
  [[nodiscard]] std::array<std::int64_t, 2> identity() const { return {precision * blocks, precision}; }
  [[nodiscard]] std::array<std::int64_t, 3> packed() const { return {limit, precision, blocks}; }
  [[nodiscard]] Cost most() const { return limit; }
  [[nodiscard]] std::int64_t max_cells() const { return blocks; }
  /// When a block leaves the window: it counts until `blocks` whole blocks have passed after it.
  [[nodiscard]] constexpr Micros leaves_at(std::int64_t block) const {
    return (block + blocks + 1) * precision;
  }
};
static_assert(kIsState<SlidingWindow::State>);

constexpr Micros clamp(const SlidingWindow& window, const SlidingWindow::State& state) {
  return product(state.newest, window.precision);
}

inline std::optional<Standing<SlidingWindow::State>> advance(const SlidingWindow& window,
                                                             const SlidingWindow::State& state,
                                                             const Cells& cells, Micros now) {
  const std::int64_t oldest = now / window.precision - window.blocks;
  if (state.newest < oldest) return std::nullopt;
  Standing<SlidingWindow::State> standing{state};
  while (standing.dropped < cells.size() && cells[standing.dropped].at < oldest) {
    standing.state.total -= cells[standing.dropped].count;
    ++standing.dropped;
  }
  return standing;
}

/// How long until so many of the oldest blocks have left that `excess` is gone.
inline Micros until_gone(const SlidingWindow& window, const Standing<SlidingWindow::State>& standing,
                         const Cells& cells, Micros now, std::int64_t excess) {
  for (std::size_t i = standing.dropped; i < cells.size(); ++i) {
    excess -= cells[i].count;
    if (excess <= 0) return window.leaves_at(cells[i].at) - now;
  }
  return window.leaves_at(standing.state.newest) - now;
}

inline Verdict admit(const SlidingWindow& window,
                     const std::optional<Standing<SlidingWindow::State>>& standing, const Cells& cells,
                     Micros now, Cost cost) {
  if (cost > window.limit) return kNeverAdmitted;
  if (!standing) return kAdmitted;
  const std::int64_t excess = standing->state.total - (window.limit - cost);
  return excess <= 0 ? kAdmitted : over(until_gone(window, *standing, cells, now, excess));
}

inline Charged<SlidingWindow::State> charge(const SlidingWindow& window,
                                            const std::optional<Standing<SlidingWindow::State>>& standing,
                                            Micros now, Cost cost) {
  const std::int64_t block = now / window.precision;
  if (!standing) return {{block, cost, cost}, SIZE_MAX};
  const SlidingWindow::State& state = standing->state;
  if (state.newest == block) {
    return {{block, state.count + cost, state.total + cost}, standing->dropped};
  }
  return {{block, cost, state.total + cost}, standing->dropped, Cell{state.newest, state.count}};
}

constexpr std::int64_t remaining(const SlidingWindow& window, const SlidingWindow::State& state) {
  return std::max<std::int64_t>(0, window.limit - state.total);
}

inline Micros expires_at(const SlidingWindow& window, const SlidingWindow::State& state, const Cells&) {
  return window.leaves_at(state.newest);
}

}  // namespace overlimit
