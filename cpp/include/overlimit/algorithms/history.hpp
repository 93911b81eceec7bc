// What sliding windows and logs have in common: cells that count until they leave, oldest first, the newest
// of them in the header together with the total of all. A limit with a history says which cell an instant
// falls into (`cell_of`), which is the oldest that counts (`oldest`), and when a cell leaves (`leaves_at`). A
// total that does not hold the cells is none of ours.
#pragma once

#include <algorithm>
#include <optional>

#include "overlimit/algorithms/step.hpp"

namespace overlimit::history {

/// The newest charged cell; older ones that still count are the record's cells; total is the sum of all.
struct State {
  std::int64_t newest;
  std::int64_t count;
  std::int64_t total;
};
static_assert(kIsState<State>);

template <class Limited>
std::optional<Standing<State>> advance(const Limited& limit, const State& state, const Cells& cells,
                                       Micros now) {
  const std::int64_t oldest = limit.oldest(now);
  if (state.newest < oldest) return std::nullopt;
  Standing<State> standing{state};
  for (; standing.dropped < cells.size() && cells[standing.dropped].at < oldest; ++standing.dropped) {
    const std::int64_t gone = cells[standing.dropped].count;
    if (gone < 0 || gone > standing.state.total - state.count) return std::nullopt;
    standing.state.total -= gone;
  }
  return standing;
}

/// How long until so many of the oldest cells have left that `excess` is gone.
template <class Limited>
Micros until_gone(const Limited& limit, const Standing<State>& standing, const Cells& cells, Micros now,
                  std::int64_t excess) {
  for (std::size_t i = standing.dropped; i < cells.size(); ++i) {
    excess -= std::clamp<std::int64_t>(cells[i].count, 0, excess);
    if (excess == 0) return limit.leaves_at(cells[i].at) - now;
  }
  return limit.leaves_at(standing.state.newest) - now;
}

template <class Limited>
Verdict admit(const Limited& limit, const std::optional<Standing<State>>& standing, const Cells& cells,
              Micros now, Cost cost) {
  if (cost > limit.limit) return kNeverAdmitted;
  if (!standing) return kAdmitted;
  const std::int64_t excess = standing->state.total - (limit.limit - cost);
  return excess <= 0 ? kAdmitted : over(until_gone(limit, *standing, cells, now, excess));
}

template <class Limited>
Charged<State> charge(const Limited& limit, const std::optional<Standing<State>>& standing, Micros now,
                      Cost cost) {
  const std::int64_t cell = limit.cell_of(now);
  if (!standing) return {{cell, cost, cost}, SIZE_MAX};
  const State& state = standing->state;
  if (state.newest == cell) return {{cell, state.count + cost, state.total + cost}, standing->dropped};
  if (state.count == 0) return {{cell, cost, state.total + cost}, standing->dropped};
  return {{cell, cost, state.total + cost}, standing->dropped, Cell{state.newest, state.count}};
}

inline std::optional<Refunded<State>> refund(const State& state, const Cells& cells, const State& then,
                                             Cost cost) {
  if (state.newest == then.newest) {
    const Cost given = std::min(cost, state.count);
    return Refunded<State>{{state.newest, state.count - given, state.total - given}};
  }
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (cells[i].at != then.newest) continue;
    const Cost given = std::min(cost, cells[i].count);
    return Refunded<State>{{state.newest, state.count, state.total - given}, i, cells[i].count - given};
  }
  return std::nullopt;
}

}  // namespace overlimit::history
