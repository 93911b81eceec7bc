// What sliding windows and logs have in common: cells that count until they leave, oldest first, the newest
// of them in the header together with the total of all. A limit with a history says which cell an instant
// falls into (`cell_of`), which is the oldest that counts (`oldest`), and when a cell leaves (`leaves_at`). A
// record whose cells count more than its total was not written by us, and is treated as absent.
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
std::optional<CurrentRecord<State>> advance(const Limited& limit, const State& state, const Cells& cells,
                                            Instant now) {
  const std::int64_t oldest = limit.oldest(now);
  if (state.newest < oldest) return std::nullopt;
  CurrentRecord<State> current{state};
  for (; current.dropped < cells.size() && cells[current.dropped].at < oldest; ++current.dropped) {
    const std::int64_t gone = cells[current.dropped].count;
    if (gone < 0 || gone > current.state.total - state.count) return std::nullopt;
    current.state.total -= gone;
  }
  return current;
}

/// How long until enough of the oldest cells have left for `excess` to be gone.
template <class Limited>
Duration until_gone(const Limited& limit, const CurrentRecord<State>& current, const Cells& cells,
                    Instant now, std::int64_t excess) {
  for (std::size_t i = current.dropped; i < cells.size(); ++i) {
    excess -= std::clamp<std::int64_t>(cells[i].count, 0, excess);
    if (excess == 0) return limit.leaves_at(cells[i].at) - now;
  }
  return limit.leaves_at(current.state.newest) - now;
}

template <class Limited>
Verdict admit(const Limited& limit, const std::optional<CurrentRecord<State>>& current, const Cells& cells,
              Instant now, Cost cost) {
  if (cost > limit.limit) return kNeverAdmitted;
  if (!current) return kAdmitted;
  const std::int64_t excess = current->state.total - (limit.limit - cost);
  return excess <= 0 ? kAdmitted : over(until_gone(limit, *current, cells, now, excess));
}

template <class Limited>
ChargedRecord<State> charge(const Limited& limit, const std::optional<CurrentRecord<State>>& current,
                            Instant now, Cost cost) {
  const std::int64_t cell = limit.cell_of(now);
  if (!current) return {{cell, cost, cost}, SIZE_MAX};
  const State& state = current->state;
  ChargedRecord<State> charged{{cell, cost, state.total + cost}, current->dropped};
  if (state.newest == cell) {
    charged.state.count += state.count;
  } else if (state.count != 0) {
    charged.pushed = Cell{state.newest, state.count};
  }
  return charged;
}

inline std::optional<RefundedRecord<State>> refund(const State& state, const Cells& cells, const State& then,
                                                   Cost cost) {
  if (state.newest == then.newest) {
    const Cost given = std::min(cost, state.count);
    return RefundedRecord<State>{{state.newest, state.count - given, state.total - given}};
  }
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (cells[i].at != then.newest) continue;
    const Cost given = std::min(cost, cells[i].count);
    return RefundedRecord<State>{{state.newest, state.count, state.total - given}, i, cells[i].count - given};
  }
  return std::nullopt;
}

}  // namespace overlimit::history
