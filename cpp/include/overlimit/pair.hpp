// One (identifier, limit) pair, whatever its algorithm: the rules that hold for every algorithm are applied
// here, once. A store finds the record, calls `examine`, writes what `charge` returns if the whole call
// passes, and has the pair's row filled.
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "overlimit/limit.hpp"
#include "overlimit/store.hpp"

namespace overlimit {

/// A record as a store found it. The cells are borrowed.
struct FoundRecord {
  Instant expires_at{};
  Header header{};
  Cells cells{};
};

/// A pair at its own instant, before anything is charged.
struct ExaminedPair {
  Verdict verdict{};
  Instant now{};            ///< the call's reading, but not before the record's own time
  bool has_record = false;  ///< whether anything of a record is left
  Header header{};          ///< of that record, as it is at now
  std::size_t dropped = 0;  ///< oldest cells that no longer count
  Instant expires_at{};     ///< when nothing of the record counts any more, never later than as written
  Instant written_expiry{};
  Duration delay{};  ///< how long the caller then waits, admitted now or when told to come back
};

/// The record of a pair after a charge: what a store writes.
struct ChargedPair : ChargedRecord<Header> {
  Instant expires_at{};
};

namespace detail {

/// A record's own time; nothing if the record has expired, or cannot have been written by this limit.
template <class Limited>
std::optional<Instant> valid_time_of(const Limited& limit, const typename Limited::State& state,
                                     const FoundRecord& found, Instant reading) {
  if (found.expires_at <= reading) return std::nullopt;
  const Instant time = time_of(limit, state);
  if (time >= min(kMaxTime, found.expires_at)) return std::nullopt;
  return time;
}

template <class Limited>
Duration delay_of(const Limited& limit, const typename Limited::State& state, Instant now) {
  if constexpr (Delaying<Limited>) return delay(limit, state, now);
  return {};
}

/// The delay of a caller that comes back after `retry_after`. A caller who would wait for longer than its
/// patience is refused until the wait has become short enough, or the record is gone.
template <class Limited>
void judge_delay(const Limited& limit, const Current<Limited>& current, const Cells& cells, Instant gone_at,
                 Cost cost, Duration patience, ExaminedPair& pair) {
  const auto wait = [&] {
    const Instant at = pair.now + pair.verdict.retry_after;
    const bool is_there = current && at < gone_at;
    const Current<Limited> then = is_there ? advance(limit, current->state, cells, at) : std::nullopt;
    return delay(limit, charge(limit, then, at, cost).state, at);
  };
  pair.delay = wait();
  if (pair.verdict.status != Status::ok || pair.delay <= patience) return;
  pair.verdict = over(min(pair.delay - patience, gone_at - pair.now));
  pair.delay = wait();
}

// Inlined into the one function below, where a compiler would leave some algorithms outside: every hit
// counts.
template <class Limited>
[[gnu::always_inline]] inline ExaminedPair examine(const Limited& limit, const FoundRecord* found,
                                                   Instant reading, Cost cost, Duration patience) {
  ExaminedPair pair;
  pair.now = reading;
  Current<Limited> current;
  Cells cells;
  if (found != nullptr) {
    const auto state = state_from<typename Limited::State>(found->header);
    if (const std::optional<Instant> time = valid_time_of(limit, state, *found, reading)) {
      cells = found->cells;
      pair.now = max(reading, *time);
      current = advance(limit, state, cells, pair.now);
    }
  }
  pair.verdict = admit(limit, current, cells, pair.now, cost);
  if (current) {
    pair.has_record = true;
    pair.header = header_from(current->state);
    pair.dropped = current->dropped;
    pair.expires_at = min(found->expires_at, expires_at(limit, current->state, cells));
    pair.written_expiry = found->expires_at;
    if (pair.verdict.status == Status::over) {
      // Cells that another program has written cannot be trusted.
      pair.verdict.retry_after =
          max(kMicrosecond, min(pair.verdict.retry_after, found->expires_at - pair.now));
    }
  }
  if constexpr (Delaying<Limited>) {
    const Instant gone_at = current ? found->expires_at : Instant{} + kNever;
    if (pair.verdict.status != Status::never)
      judge_delay(limit, current, cells, gone_at, cost, patience, pair);
  }
  return pair;
}

template <class Limited>
ChargedPair charge(const Limited& limit, const ExaminedPair& pair, Cost cost) {
  Current<Limited> current;
  if (pair.has_record) current = {state_from<typename Limited::State>(pair.header), pair.dropped};
  const auto after = charge(limit, current, pair.now, cost);
  ChargedPair written{{header_from(after.state), after.dropped}, expires_at(limit, after.state, Cells{})};
  if constexpr (KnowingRefunds<Limited>) {
    if (knows_refunds(limit, after.state)) written.expires_at = max(written.expires_at, pair.written_expiry);
  }
  // Not a copy of the optional, see header_from.
  if (after.pushed) written.pushed = Cell{after.pushed->at, after.pushed->count};
  return written;
}

}  // namespace detail

/// Judges `cost` on the record found, or on none (nullptr). A record is treated as absent if it has expired
/// at the call's reading (so nobody waits for longer than until its expiry), if its own time is out of range,
/// or if it expires at or before its own time.
[[gnu::noinline]] inline ExaminedPair examine(const Limit& limit, const FoundRecord* found, Instant reading,
                                              Cost cost, Duration patience = kNever) {
  return std::visit(
      [&](const auto& limited)
          __attribute__((always_inline)) { return detail::examine(limited, found, reading, cost, patience); },
      limit.algorithm());
}

/// The record after charging a cost > 0, admitted or not. What it counts saturates below 2^53.
inline ChargedPair charge(const Limit& limit, const ExaminedPair& pair, Cost cost) {
  return std::visit([&](const auto& limited) { return detail::charge(limited, pair, cost); },
                    limit.algorithm());
}

/// The most a limit can ever grant.
inline Cost most(const Limit& limit) {
  return std::visit([](const auto& limited) { return limited.most(); }, limit.algorithm());
}

/// What a further `cost` would meet once this charge is written.
inline Verdict verdict_after_charge(const Limit& limit, const FoundRecord* found, const ExaminedPair& pair,
                                    const ChargedPair& written, Cost cost) {
  std::vector<Cell> cells;
  for (std::size_t i = written.dropped; found != nullptr && i < found->cells.size(); ++i) {
    cells.push_back(found->cells[i]);
  }
  if (written.pushed) cells.push_back(*written.pushed);
  if (cells.size() > kMostCells) {
    cells[1].count += cells[0].count;
    cells.erase(cells.begin());
  }
  const FoundRecord after{written.expires_at, written.state, Cells(cells.data(), cells.size())};
  return examine(limit, &after, pair.now, cost).verdict;
}

/// The record after the refund of a charge of `cost` that led to the state `then`, with its expiry as it was
/// written; nothing when nothing of that charge is left.
inline std::optional<RefundedRecord<Header>> refund(const Limit& limit, const FoundRecord& found,
                                                    const Header& then, Instant reading, Cost cost) {
  return std::visit(
      [&](const auto& limited) -> std::optional<RefundedRecord<Header>> {
        using State = typename std::decay_t<decltype(limited)>::State;
        const auto state = state_from<State>(found.header);
        const std::optional<Instant> time = detail::valid_time_of(limited, state, found, reading);
        if (!time) return std::nullopt;
        const auto after =
            refund(limited, state, found.cells, state_from<State>(then), max(reading, *time), cost);
        if (!after) return std::nullopt;
        return RefundedRecord<Header>{header_from(after->state), after->cell, after->cell_count, after->note};
      },
      limit.algorithm());
}

/// Fills a row for a pair that is not charged.
inline void fill_uncharged(const Limit& limit, const ExaminedPair& pair, const Rows& rows, std::size_t row) {
  const Header header = pair.has_record ? pair.header : Header{};
  std::visit(
      [&](const auto& limited) {
        const auto state = state_from<typename std::decay_t<decltype(limited)>::State>(header);
        rows.remaining[row] = remaining(limited, state, pair.now);
      },
      limit.algorithm());
  rows.status[row] = pair.verdict.status;
  rows.delay[row] = pair.delay;
  rows.retry_after[row] = pair.verdict.retry_after;
  rows.reset_after[row] = pair.has_record ? max(Duration{}, pair.expires_at - pair.now) : Duration{};
  rows.receipt[row] = {};
}

/// Changes the row of a pair that was not charged because its identifier is locked for this much longer: by
/// this call (`over`), or already (`locked`).
inline void fill_locked(Status status, Duration time_left, const Rows& rows, std::size_t row) {
  rows.status[row] = std::max(rows.status[row], status);
  rows.remaining[row] = 0;
  rows.retry_after[row] = max(rows.retry_after[row], time_left);
  rows.reset_after[row] = max(rows.reset_after[row], time_left);
  rows.delay[row] = {};
}

/// Fills a row for a pair that is not charged, of an identifier that is under this lock, if any; `own` is the
/// verdict on its charge.
inline void fill_refused(const Limit& limit, const ExaminedPair& pair, Status own,
                         const std::optional<Lock>& lock, Instant reading, const Rows& rows,
                         std::size_t row) {
  fill_uncharged(limit, pair, rows, row);
  const Duration time_left = lock ? lock->time_left(reading) : Duration{};
  if (time_left > Duration{}) fill_locked(std::min(own, Status::locked), time_left, rows, row);
}

/// Fills a row for a pair that was charged at this reading, under a key created at this time.
inline void fill_charged(const Limit& limit, const Header& after, Instant reading, Instant created_at,
                         const Rows& rows, std::size_t row) {
  std::visit(
      [&](const auto& limited) {
        using State = typename std::decay_t<decltype(limited)>::State;
        const auto state = state_from<State>(after);
        const Instant now = max(reading, time_of(limited, state));
        rows.remaining[row] = remaining(limited, state, now);
        rows.reset_after[row] = expires_at(limited, state, Cells{}) - now;
        rows.delay[row] = detail::delay_of(limited, state, now);
      },
      limit.algorithm());
  rows.status[row] = Status::ok;
  rows.retry_after[row] = {};
  rows.receipt[row] = {created_at, after};
}

/// Whether charges of this role are written although they may not have been admitted.
constexpr bool charges_unadmitted(Role role) { return role >= Role::on_refusal; }

/// Changes the row of such a charge: its retry is of the same cost once more. That of Role::always says what
/// a hit would have met, or what one of cost 0 meets now if the call shows the present.
[[gnu::noinline]] inline void fill_unadmitted(const Call& call, const Charge& charge, const Limit& limit,
                                              const FoundRecord* found, const ExaminedPair& pair,
                                              const ChargedPair& written, Cost cost,
                                              const std::optional<Lock>& lock, Instant reading,
                                              const Rows& rows, std::size_t row) {
  const auto after = [&](Cost further) { return verdict_after_charge(limit, found, pair, written, further); };
  if (charge.role == Role::on_refusal) {
    rows.retry_after[row] = after(cost).retry_after;
    return;
  }
  Verdict met = call.shows_present ? after(0) : pair.verdict;
  if (!call.shows_present && met.status == Status::over) met.retry_after = after(cost).retry_after;
  rows.status[row] = met.status;
  rows.retry_after[row] = met.retry_after;
  if (met.status != Status::ok) rows.delay[row] = {};
  if (lock && lock->holds(reading)) fill_locked(Status::locked, lock->time_left(reading), rows, row);
}

}  // namespace overlimit
