// What sliding windows and logs have in common: cells that count until they leave, oldest first, the newest
// of them in the header together with the total of all. A limit with a history says which cell an instant
// falls into (`cell_of`), which is the oldest that counts (`oldest`), and when a cell leaves (`leaves_at`). A
// record whose cells count more than its total was not written by us, and is treated as absent. A total that
// saturates is all in the newest cell: no cell is lost that way, and none counts for less than it did.
#pragma once

#include <algorithm>
#include <optional>

#include "overlimit/algorithms/step.hpp"

namespace overlimit {

/// The newest charged cell; older ones that still count are the record's cells; total is the sum of all.
struct History {
  std::int64_t newest;
  std::int64_t count;
  std::int64_t total;
};
static_assert(kIsState<History>);

template <class Limited>
concept KeepingHistory = std::same_as<typename Limited::State, History>;

template <KeepingHistory Limited>
Current<Limited> advance(const Limited& limit, const History& state, const Cells& cells, Instant now) {
  const std::int64_t oldest = limit.oldest(now);
  if (state.newest < oldest) return std::nullopt;
  CurrentRecord<History> current{state};
  for (; current.dropped < cells.size() && cells[current.dropped].at < oldest; ++current.dropped) {
    const std::int64_t gone = cells[current.dropped].count;
    if (gone < 0 || gone > current.state.total - state.count) return std::nullopt;
    current.state.total -= gone;
  }
  return current;
}

/// How long until enough of the cells from this one on have left for `excess` to be gone. By value, so that a
/// caller has them in registers until they are needed.
template <KeepingHistory Limited>
[[gnu::noinline]] Duration until_gone(const Limited& limit, std::int64_t newest, std::size_t oldest,
                                      Cells cells, Instant now, std::int64_t excess) {
  for (std::size_t i = oldest; i < cells.size(); ++i) {
    excess -= std::clamp<std::int64_t>(cells[i].count, 0, excess);
    // A cell that others have written may name any time: what counts leaves at the earliest with the oldest.
    if (excess == 0) return limit.leaves_at(std::max(cells[i].at, limit.oldest(now))) - now;
  }
  return limit.leaves_at(newest) - now;
}

template <KeepingHistory Limited>
Verdict admit(const Limited& limit, const Current<Limited>& current, const Cells& cells, Instant now,
              Cost cost) {
  if (cost > limit.limit) return kNeverAdmitted;
  if (!current) return kAdmitted;
  const std::int64_t excess = current->state.total - (limit.limit - cost);
  if (excess <= 0) return kAdmitted;
  return over(until_gone(limit, current->state.newest, current->dropped, cells, now, excess));
}

template <KeepingHistory Limited>
Charged<Limited> charge(const Limited& limit, const Current<Limited>& current, Instant now, Cost cost) {
  const std::int64_t cell = limit.cell_of(now);
  const std::int64_t total = (current ? current->state.total : 0) + cost;
  if (total >= kExact - 1) [[unlikely]]
    return {{cell, kExact - 1, kExact - 1}, SIZE_MAX};
  if (!current) return {{cell, cost, cost}, SIZE_MAX};
  const History& state = current->state;
  if (state.newest == cell) return {{cell, sum(state.count, cost), total}, current->dropped};
  if (state.count == 0) return {{cell, cost, total}, current->dropped};
  return {{cell, cost, total}, current->dropped, Cell{state.newest, state.count}};
}

template <KeepingHistory Limited>
Refunded<Limited> refund(const Limited&, const History& state, const Cells& cells, const History& then,
                         Instant, Cost cost) {
  if (is_saturated(state.total)) return std::nullopt;
  if (state.newest == then.newest) {
    const Cost given = std::min(cost, state.count);
    return RefundedRecord<History>{{state.newest, state.count - given, state.total - given}};
  }
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (cells[i].at != then.newest) continue;
    const Cost given = std::min(cost, cells[i].count);
    return RefundedRecord<History>{
        {state.newest, state.count, state.total - given}, i, cells[i].count - given};
  }
  return std::nullopt;
}

template <KeepingHistory Limited>
std::int64_t remaining(const Limited& limit, const History& state, Instant) {
  return std::max<std::int64_t>(0, limit.limit - state.total);
}

}  // namespace overlimit
