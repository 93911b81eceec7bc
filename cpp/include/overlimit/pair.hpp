// One (identifier, limit) pair, whatever its algorithm: the rules that hold for every algorithm are applied
// here, once. A store finds the record, calls `examine`, writes what `charge` returns if the whole call
// passes, and has the pair's row filled.
#pragma once

#include <algorithm>
#include <optional>
#include <variant>
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

/// A pair at its own instant, before anything is charged. Begins without values.
struct ExaminedPair {
  Verdict verdict;
  Instant now;          ///< the call's reading, but not before the record's own time
  Duration delay;       ///< how long the caller then waits, admitted now or when told to come back
  bool has_record;      ///< whether anything of a record is left; else nothing of what follows is set
  Header header;        ///< of that record, as it is at now
  std::size_t dropped;  ///< oldest cells that no longer count
  Instant expires_at;   ///< when nothing of the record counts any more, never later than as written
  Instant written_expiry;

  /// Whether it does not admit its call, and still would not at a later instant if nothing happens until
  /// then.
  [[nodiscard]] bool refuses_at(Instant later) const {
    if (verdict.status == Status::ok) return false;
    return verdict.status == Status::never || now + verdict.retry_after > later;
  }
};

/// The record of a pair after a charge: what a store writes.
struct ChargedPair : ChargedRecord<Header> {
  Instant expires_at{};
};

namespace detail {

/// Whether this can be the time of a record that this limit has written.
inline bool is_valid(Instant time, const FoundRecord& found) {
  return time < min(kMaxTime, found.expires_at);
}

/// A record's own time; nothing if the record has expired, or cannot have been written by this limit.
template <class Limited>
std::optional<Instant> valid_time_of(const Limited& limit, const typename Limited::State& state,
                                     const FoundRecord& found, Instant reading) {
  const Instant time = time_of(limit, state);
  if (found.expires_at <= reading || !is_valid(time, found)) return std::nullopt;
  return time;
}

template <class Limited>
Duration delay_of(const Limited& limit, const typename Limited::State& state, Instant now) {
  if constexpr (Delaying<Limited>) return delay(limit, state, now);
  return {};
}

/// The delay of a caller that comes back after `retry_after`. A caller who would wait for longer than its
/// patience is refused until the wait has become short enough, or the record is gone. What is `current` may
/// count otherwise than the record's cells say, so a later instant is reckoned from what was found.
template <class Limited>
void judge_delay(const Limited& limit, const Current<Limited>& current, const Header& found,
                 const Cells& cells, Instant gone_at, Cost cost, Duration patience, ExaminedPair& pair) {
  const auto state = state_from<typename Limited::State>(found);
  const auto wait = [&] {
    const Instant at = pair.now + pair.verdict.retry_after;
    const bool is_there = current && at < gone_at;
    const Current<Limited> then = is_there ? advance(limit, state, cells, at) : std::nullopt;
    return delay(limit, charge(limit, then, at, cost).state, at);
  };
  pair.delay = wait();
  if (pair.verdict.status != Status::ok || pair.delay <= patience) return;
  pair.verdict = over(min(pair.delay - patience, gone_at - pair.now));
  pair.delay = wait();
}

// These are inlined where a call is decided, as a compiler would leave some algorithms outside: every hit
// counts. A record that counts and none are told apart at once, so that what follows need not ask.
template <class Limited>
[[gnu::always_inline]] inline void judge(const Limited& limit, const Current<Limited>& current,
                                         const Header& found, const Cells& cells, Instant gone_at, Cost cost,
                                         Duration patience, ExaminedPair& pair) {
  pair.verdict = admit(limit, current, cells, pair.now, cost);
  // Cells that another program has written cannot be trusted.
  if (pair.verdict.status == Status::over) {
    pair.verdict.retry_after = max(kMicrosecond, min(pair.verdict.retry_after, gone_at - pair.now));
  }
  if constexpr (Delaying<Limited>) {
    if (pair.verdict.status != Status::never)
      judge_delay(limit, current, found, cells, gone_at, cost, patience, pair);
  }
}

template <class Limited>
[[gnu::always_inline]] inline void examine_current(const Limited& limit, const FoundRecord& found,
                                                   const CurrentRecord<typename Limited::State>& current,
                                                   Cost cost, Duration patience, ExaminedPair& pair) {
  pair.has_record = true;
  pair.header = header_from(current.state);
  pair.dropped = current.dropped;
  pair.written_expiry = found.expires_at;
  judge<Limited>(limit, current, found.header, found.cells, found.expires_at, cost, patience, pair);
}

template <class Limited>
[[gnu::always_inline]] inline void examine(const Limited& limit, const FoundRecord* found, Instant reading,
                                           Cost cost, Duration patience, ExaminedPair& pair) {
  pair.now = reading;
  pair.delay = {};
  if (found != nullptr && found->expires_at > reading) [[likely]] {
    const auto state = state_from<typename Limited::State>(found->header);
    if (const Instant time = time_of(limit, state); is_valid(time, *found)) [[likely]] {
      pair.now = max(reading, time);
      if (const Current<Limited> current = advance(limit, state, found->cells, pair.now)) [[likely]]
        return examine_current(limit, *found, *current, cost, patience, pair);
    }
  }
  pair.has_record = false;
  judge<Limited>(limit, std::nullopt, Header{}, Cells{}, Instant{} + kNever, cost, patience, pair);
}

/// Completes an examined pair that is not charged.
template <class Limited>
[[gnu::always_inline]] inline void find_expiry(const Limited& limit, const FoundRecord& found,
                                               ExaminedPair& pair) {
  const auto state = state_from<typename Limited::State>(pair.header);
  pair.expires_at = min(found.expires_at, expires_at(limit, state, found.cells));
}

/// Calls write(after, expires_at, gone_at) with the record after a charge: until when it is kept, and until
/// when it counts, which is earlier where it knows what was refunded.
template <class Limited, class Write>
[[gnu::always_inline]] inline void charge(const Limited& limit, const ExaminedPair& pair, Cost cost,
                                          const Write& write) {
  using State = typename Limited::State;
  if (!pair.has_record) {
    const Charged<Limited> after = charge(limit, Current<Limited>{}, pair.now, cost);
    const Instant gone_at = expires_at(limit, after.state, Cells{});
    return write(after, gone_at, gone_at);
  }
  const CurrentRecord<State> current{state_from<State>(pair.header), pair.dropped};
  const Charged<Limited> after = charge(limit, Current<Limited>{current}, pair.now, cost);
  const Instant gone_at = expires_at(limit, after.state, Cells{});
  Instant kept_until = gone_at;
  if constexpr (KnowingRefunds<Limited>) {
    if (knows_refunds(limit, after.state)) kept_until = max(gone_at, pair.written_expiry);
  }
  write(after, kept_until, gone_at);
}

template <class Limited>
[[gnu::always_inline]] inline void fill_charged(const Limited& limit, const typename Limited::State& after,
                                                Instant gone_at, Instant now, Instant created_at,
                                                const Rows& rows, std::size_t row) {
  rows.status[row] = Status::ok;
  rows.remaining[row] = remaining(limit, after, now);
  rows.retry_after[row] = {};
  rows.reset_after[row] = gone_at - now;
  rows.delay[row] = delay_of(limit, after, now);
  rows.receipt[row] = {created_at, header_from(after)};
}

/// Charges a pair, fills its row, and calls write(after, expires_at) with the record that is to be stored. At
/// this reading, under a key created at this time.
template <class Limited, class Write>
[[gnu::always_inline]] inline void charge_and_fill(const Limited& limit, const ExaminedPair& pair, Cost cost,
                                                   Instant reading, Instant created_at, const Rows& rows,
                                                   std::size_t row, const Write& write) {
  charge(
      limit, pair, cost,
      [&](const Charged<Limited>& after, Instant expires_at, Instant gone_at) __attribute__((always_inline)) {
        // A record that was there has told its time.
        const Instant now = pair.has_record ? pair.now : max(reading, time_of(limit, after.state));
        fill_charged(limit, after.state, gone_at, now, created_at, rows, row);
        write(after, expires_at);
      });
}

template <class Limited>
[[gnu::always_inline]] inline void fill_uncharged(const Limited& limit, const ExaminedPair& pair,
                                                  const Rows& rows, std::size_t row) {
  const auto state = state_from<typename Limited::State>(pair.has_record ? pair.header : Header{});
  rows.status[row] = pair.verdict.status;
  rows.remaining[row] = remaining(limit, state, pair.now);
  rows.retry_after[row] = pair.verdict.retry_after;
  rows.reset_after[row] = pair.has_record ? max(Duration{}, pair.expires_at - pair.now) : Duration{};
  rows.delay[row] = pair.delay;
  rows.receipt[row] = {};
}

}  // namespace detail

/// Calls action(algorithm) with the algorithm of a limit, which is inlined.
template <class Action>
[[gnu::always_inline]] inline decltype(auto) with_algorithm(const Limit& limit, const Action& action) {
  return std::visit(
      [&](const auto& limited) __attribute__((always_inline))->decltype(auto) { return action(limited); },
      limit.algorithm());
}

/// Judges `cost` on the record found, or on none (nullptr). A record is treated as absent if it has expired
/// at the call's reading (so nobody waits for longer than until its expiry), if its own time is out of range,
/// or if it expires at or before its own time.
[[gnu::noinline]] inline ExaminedPair examine(const Limit& limit, const FoundRecord* found, Instant reading,
                                              Cost cost, Duration patience = kNever) {
  ExaminedPair pair;
  with_algorithm(
      limit, [&](const auto& limited) __attribute__((always_inline)) {
        detail::examine(limited, found, reading, cost, patience, pair);
        // NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): without one, the pair has no record
        if (pair.has_record) detail::find_expiry(limited, *found, pair);
      });
  return pair;
}

/// The record after charging a cost > 0, admitted or not. What it counts saturates below 2^53. Of a
/// record with holds this is what it would be without them: see cells_after_charge and expiry_with.
inline ChargedPair charge(const Limit& limit, const ExaminedPair& pair, Cost cost) {
  ChargedPair written;
  with_algorithm(limit, [&](const auto& limited) {
    detail::charge(limited, pair, cost, [&](const auto& after, Instant expires_at, Instant) {
      written = {{header_from(after.state), after.dropped, after.pushed}, expires_at};
    });
  });
  return written;
}

/// The most a limit can ever grant.
inline Cost most(const Limit& limit) {
  return std::visit([](const auto& limited) { return limited.most(); }, limit.algorithm());
}

/// The cells of a record once this charge is written.
inline std::vector<Cell> cells_after_charge(const Limit& limit, const FoundRecord* found,
                                            const ExaminedPair& pair, const ChargedPair& written) {
  std::vector<Cell> cells;
  for (std::size_t i = written.dropped; found != nullptr && i < found->cells.size(); ++i) {
    cells.push_back(found->cells[i]);
  }
  if (written.pushed) cells.push_back(*written.pushed);
  if (cells.size() > kMostCells) {
    cells[1].count += cells[0].count;
    cells.erase(cells.begin());
  }
  with_algorithm(limit, [&](const auto& limited) {
    using Limited = std::decay_t<decltype(limited)>;
    if constexpr (Holding<Limited>) {
      if (!pair.has_record || found == nullptr || !has_holds(limited, found->cells)) return;
      const auto state = state_from<typename Limited::State>(found->header);
      const std::vector<Cell> with_holds = cells_after_charge(limited, state, found->cells, pair.now);
      if (with_holds.size() > 1) cells = with_holds;
    }
  });
  return cells;
}

/// When the record expires once this charge is written with these cells: what is held may outlast the rest.
inline Instant expiry_with(const std::vector<Cell>& cells, const Limit& limit, const ChargedPair& written) {
  return with_algorithm(limit, [&](const auto& limited) {
    using Limited = std::decay_t<decltype(limited)>;
    if constexpr (Holding<Limited>) {
      const auto state = state_from<typename Limited::State>(written.state);
      return max(written.expires_at, expires_at(limited, state, Cells(cells.data(), cells.size())));
    }
    return written.expires_at;
  });
}

/// What a further `cost` would meet once this charge is written.
inline Verdict verdict_after_charge(const Limit& limit, const FoundRecord* found, const ExaminedPair& pair,
                                    const ChargedPair& written, Cost cost) {
  const std::vector<Cell> cells = cells_after_charge(limit, found, pair, written);
  const FoundRecord after{expiry_with(cells, limit, written), written.state,
                          Cells(cells.data(), cells.size())};
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
  with_algorithm(limit, [&](const auto& limited) { detail::fill_uncharged(limited, pair, rows, row); });
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
  with_algorithm(limit, [&](const auto& limited) {
    const auto state = state_from<typename std::decay_t<decltype(limited)>::State>(after);
    const Instant now = max(reading, time_of(limited, state));
    detail::fill_charged(limited, state, expires_at(limited, state, Cells{}), now, created_at, rows, row);
  });
}

/// Changes the row of such a pair if its record has holds, of which its state alone says nothing: that record
/// has this many cells, and is kept until it expires.
inline void show_holds(const Limit& limit, std::size_t cells, Instant expires_at, const Header& after,
                       Instant reading, const Rows& rows, std::size_t row) {
  with_algorithm(limit, [&](const auto& limited) {
    using Limited = std::decay_t<decltype(limited)>;
    if constexpr (Holding<Limited>) {
      if (cells < 2) return;
      const Instant time = time_of(limited, state_from<typename Limited::State>(after));
      rows.reset_after[row] = expires_at - max(reading, time);
    }
  });
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
  const Cost further = call.shows_present ? 0 : cost;
  const Verdict next = verdict_after_charge(limit, found, pair, written, further);
  rows.retry_after[row] = next.retry_after;
  if (charge.role == Role::on_refusal) return;
  rows.status[row] = call.shows_present ? next.status : pair.verdict.status;
  if (rows.status[row] != Status::ok) rows.delay[row] = {};
  if (lock && lock->holds(reading)) fill_locked(Status::locked, lock->time_left(reading), rows, row);
}

}  // namespace overlimit
