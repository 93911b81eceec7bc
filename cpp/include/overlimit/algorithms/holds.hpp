// What a continuous bucket's record holds for leases. A unit that was charged early must not drain before it
// can be spent, so usage never drains below the sum of the holds whose `until` is still to come. When one
// passes, that floor falls, and usage drains on from where it stood. In memory nothing is ever held.
#pragma once

#include <cstdint>

#include "overlimit/algorithms/step.hpp"
#include "overlimit/time.hpp"

namespace overlimit {

/// A script writes no more holds than this, none that lasts longer, and each before the next: others are
/// none.
inline constexpr std::size_t kMostHolds = 8;

/// The holds of a record: its cells behind the note, oldest first, as (until, units).
class Holds {
 public:
  /// Of a record whose time is `last` and that counts in `from` units per token; shown in `to` units.
  Holds(const Cells& cells, Instant last, std::int64_t from, std::int64_t to)
      : cells_(cells), last_(last), from_(from), to_(to) {}

  /// Whether these are the cells of a record with holds; a note alone is none.
  static bool are_in(const Cells& cells) { return cells.size() > 1 && cells.size() <= 1 + kMostHolds; }

  /// Calls action(until, units, floor) for each, newest first; the floor is what is held right before
  /// `until`.
  void for_each(const auto& action) const {
    if (!are_in(cells_) || from_ <= 0) return;
    std::int64_t floor = 0;
    Instant next = later(last_, kLongestHold + kMicrosecond);
    for (std::size_t i = cells_.size() - 1; i > 0; --i) {
      const Instant until{cells_[i].at};
      if (until <= last_ || until >= next || cells_[i].count <= 0 || cells_[i].count >= kExact) continue;
      next = until;
      const std::int64_t units = in_shown_units(cells_[i].count);
      floor = sum(floor, units);
      action(until, units, floor);
    }
  }

  /// The sum of all.
  [[nodiscard]] std::int64_t total() const {
    std::int64_t total = 0;
    for_each([&](Instant, std::int64_t, std::int64_t floor) { total = floor; });
    return total;
  }

 private:
  // Rounded up like what is used.
  [[nodiscard]] std::int64_t in_shown_units(std::int64_t units) const {
    return from_ == to_ ? units : multiply_divide(units, to_, from_, from_ - 1);
  }

  const Cells& cells_;
  Instant last_;
  std::int64_t from_;
  std::int64_t to_;
};

}  // namespace overlimit
