// One (identifier, limit) pair, whatever its algorithm: the rules that hold for every algorithm are applied
// here, once. A store finds the record, asks `examine`, writes what `charged` says if the whole call passes,
// and shows the row.
#pragma once

#include <algorithm>
#include <bit>
#include <optional>
#include <vector>

#include "overlimit/limit.hpp"
#include "overlimit/store.hpp"

namespace overlimit {

/// A record as a store found it. The cells are borrowed.
struct Found {
  Micros expires_at = 0;
  Header header{};
  Cells cells{};
};

/// A pair as it stands at its own instant, before anything is charged.
struct Examined {
  Verdict verdict{};
  Micros now = 0;           ///< the call's reading, but not before the record's own time
  bool standing = false;    ///< whether anything of a record is left
  Header header{};          ///< what is left
  std::size_t dropped = 0;  ///< oldest cells that no longer count
  Micros expires_at = 0;    ///< when the record is gone, never later than as written
  Micros delay = 0;         ///< how long who is admitted, now or when told to come back, then waits
};

/// What to write after a charge.
struct Written {
  Header header{};
  std::size_t dropped = 0;
  std::optional<Cell> pushed{};
  Micros expires_at = 0;
};

namespace detail {

/// A record's own time, unless it is none of ours: it has expired, or cannot have been written so.
template <class Limited>
std::optional<Micros> own_time(const Limited& limit, const typename Limited::State& state, const Found& found,
                               Micros reading) {
  if (found.expires_at <= reading) return std::nullopt;
  const Micros own = clamp(limit, state);
  if (own >= std::min(kMaxTime, found.expires_at)) return std::nullopt;
  return own;
}

template <class Limited>
Micros delay_of(const Limited& limit, const typename Limited::State& state, Micros now) {
  if constexpr (Delaying<Limited>) return delay(limit, state, now);
  return 0;
}

/// How long who comes back as told then waits for its turn. One who would wait longer than it is willing to
/// is refused until that has become less, or the record is gone.
template <class Limited>
void queue(const Limited& limit, const Left<Limited>& standing, const Cells& cells, Micros gone_at, Cost cost,
           Micros patience, Examined& pair) {
  const auto wait = [&] {
    const Micros at = pair.now + pair.verdict.retry_after;
    const bool stands = standing && at < gone_at;
    const Left<Limited> then = stands ? advance(limit, standing->state, cells, at) : std::nullopt;
    return delay(limit, charge(limit, then, at, cost).state, at);
  };
  pair.delay = wait();
  if (pair.verdict.status != Status::ok || pair.delay <= patience) return;
  pair.verdict = over(std::min(pair.delay - patience, gone_at - pair.now));
  pair.delay = wait();
}

template <class Limited>
Examined examine(const Limited& limit, const Found* found, Micros reading, Cost cost, Micros patience) {
  Examined pair;
  pair.now = reading;
  Left<Limited> standing;
  Cells cells;
  if (found != nullptr) {
    const auto state = std::bit_cast<typename Limited::State>(found->header);
    if (const std::optional<Micros> own = own_time(limit, state, *found, reading)) {
      cells = found->cells;
      pair.now = std::max(reading, *own);
      standing = advance(limit, state, cells, pair.now);
    }
  }
  pair.verdict = admit(limit, standing, cells, pair.now, cost);
  if (standing) {
    pair.standing = true;
    pair.header = std::bit_cast<Header>(standing->state);
    pair.dropped = standing->dropped;
    pair.expires_at = std::min(found->expires_at, expires_at(limit, standing->state, cells));
    if (pair.verdict.status == Status::over) {
      // Cells that nobody of ours wrote may say anything.
      pair.verdict.retry_after =
          std::clamp<Micros>(pair.verdict.retry_after, 1, found->expires_at - pair.now);
    }
  }
  if constexpr (Delaying<Limited>) {
    const Micros gone_at = standing ? found->expires_at : kNever;
    if (pair.verdict.status != Status::never) queue(limit, standing, cells, gone_at, cost, patience, pair);
  }
  return pair;
}

template <class Limited>
Written charged(const Limited& limit, const Examined& pair, Cost cost) {
  Left<Limited> standing;
  if (pair.standing) standing = {std::bit_cast<typename Limited::State>(pair.header), pair.dropped};
  const auto after = charge(limit, standing, pair.now, cost);
  return {std::bit_cast<Header>(after.state), after.dropped, after.pushed,
          expires_at(limit, after.state, Cells{})};
}

}  // namespace detail

/// Judges `cost` on the record found, or on none (nullptr). A record whose expiry, as written, is not after
/// the call's reading is as if it were not there; so nobody waits longer than until that expiry.
/// Nor is a record whose own time no clock can read, or which had expired before that.
inline Examined examine(const Limit& limit, const Found* found, Micros reading, Cost cost,
                        Micros patience = kNever) {
  return std::visit(
      [&](const auto& limited) { return detail::examine(limited, found, reading, cost, patience); },
      limit.algorithm());
}

/// The record after charging an admitted cost > 0.
inline Written charged(const Limit& limit, const Examined& pair, Cost cost) {
  return std::visit([&](const auto& limited) { return detail::charged(limited, pair, cost); },
                    limit.algorithm());
}

/// The most a limit can ever grant.
inline Cost most(const Limit& limit) {
  return std::visit([](const auto& limited) { return limited.most(); }, limit.algorithm());
}

/// How long a further `cost` would have to wait once this charge is written.
inline Micros retry_after_charge(const Limit& limit, const Found* found, const Examined& pair,
                                 const Written& written, Cost cost) {
  std::vector<Cell> cells;
  for (std::size_t i = written.dropped; found != nullptr && i < found->cells.size(); ++i) {
    cells.push_back(found->cells[i]);
  }
  if (written.pushed) cells.push_back(*written.pushed);
  const Found after{written.expires_at, written.header, Cells(cells.data(), cells.size())};
  return examine(limit, &after, pair.now, cost).verdict.retry_after;
}

/// A record once what is left of a charge is given back; its expiry stays as it was written.
struct GivenBack {
  Header header{};
  std::size_t cell = SIZE_MAX;  ///< SIZE_MAX: the cells stay as they are
  std::int64_t cell_count = 0;  ///< 0: the cell goes
};

/// Gives back a charge of `cost` that led to the state `then`; nothing when nothing of it is left.
inline std::optional<GivenBack> given_back(const Limit& limit, const Found& found, const Header& then,
                                           Micros reading, Cost cost) {
  return std::visit(
      [&](const auto& limited) -> std::optional<GivenBack> {
        using State = typename std::decay_t<decltype(limited)>::State;
        const auto state = std::bit_cast<State>(found.header);
        const std::optional<Micros> own = detail::own_time(limited, state, found, reading);
        if (!own) return std::nullopt;
        const auto after =
            refund(limited, state, found.cells, std::bit_cast<State>(then), std::max(reading, *own), cost);
        if (!after) return std::nullopt;
        return GivenBack{std::bit_cast<Header>(after->state), after->cell, after->cell_count};
      },
      limit.algorithm());
}

/// Fills a row for a pair that is not charged.
inline void show_standing(const Limit& limit, const Examined& pair, const Rows& rows, std::size_t row) {
  const Header header = pair.standing ? pair.header : Header{};
  std::visit(
      [&](const auto& limited) {
        const auto state = std::bit_cast<typename std::decay_t<decltype(limited)>::State>(header);
        rows.remaining[row] = remaining(limited, state, pair.now);
      },
      limit.algorithm());
  rows.status[row] = pair.verdict.status;
  rows.delay[row] = pair.delay;
  rows.retry_after[row] = pair.verdict.retry_after;
  rows.reset_after[row] = pair.standing ? std::max<Micros>(0, pair.expires_at - pair.now) : 0;
  rows.receipt[row] = {};
}

/// Changes the row of a pair that was not charged because its identifier is locked for so long: by this call
/// (`over`), or already (`locked`).
inline void show_locked(Status status, Micros left, const Rows& rows, std::size_t row) {
  rows.status[row] = std::max(rows.status[row], status);
  rows.remaining[row] = 0;
  rows.retry_after[row] = std::max(rows.retry_after[row], left);
  rows.reset_after[row] = std::max(rows.reset_after[row], left);
  rows.delay[row] = 0;
}

/// Fills a row for a pair that is not charged, of an identifier that is under this lock, if any; its charge
/// is judged `own`.
inline void show_refused(const Limit& limit, const Examined& pair, Status own,
                         const std::optional<LockRecord>& lock, Micros reading, const Rows& rows,
                         std::size_t row) {
  show_standing(limit, pair, rows, row);
  const Micros left = lock ? lock->left(reading) : 0;
  if (left > 0) show_locked(std::min(own, Status::locked), left, rows, row);
}

/// Fills a row for a pair that was charged at this reading, under a key of this birth.
inline void show_charged(const Limit& limit, const Header& after, Micros reading, Micros birth,
                         const Rows& rows, std::size_t row) {
  std::visit(
      [&](const auto& limited) {
        using State = typename std::decay_t<decltype(limited)>::State;
        const auto state = std::bit_cast<State>(after);
        const Micros now = std::max(reading, clamp(limited, state));
        rows.remaining[row] = remaining(limited, state, now);
        rows.reset_after[row] = expires_at(limited, state, Cells{}) - now;
        rows.delay[row] = detail::delay_of(limited, state, now);
      },
      limit.algorithm());
  rows.status[row] = Status::ok;
  rows.retry_after[row] = 0;
  rows.receipt[row] = {birth, after};
}

}  // namespace overlimit
