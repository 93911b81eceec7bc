// Penalties: who goes over a limit is locked for a while, and for longer each time. A lock is one more record
// of a key, behind those of its limits; a level is remembered for as long as that record lives.
#pragma once

#include <algorithm>
#include <bit>
#include <optional>
#include <vector>

#include "overlimit/algorithms/step.hpp"

namespace overlimit {

struct Penalty {
  static constexpr std::size_t kMaxLevels = 64;

  std::vector<Micros> levels;  ///< how long each lock lasts; the last repeats
  bool extend = false;         ///< whether hits of who is locked start the lock anew
  std::optional<Micros>
      forget_after{};  ///< how long after a lock its level is remembered; none: for its length

  /// Throws InvalidLimit naming the argument: no level or too many, or a duration out of range.
  void check() const;
  [[nodiscard]] Micros forgets(std::size_t level) const { return forget_after.value_or(levels[level]); }
  /// The number of levels, whether hits extend, then length and memory of each level: the script's view.
  [[nodiscard]] std::vector<std::int64_t> packed() const;
};

/// The record of a lock: it holds in [start, end), and is remembered until the record expires.
struct Lock {
  Micros start;
  Micros end;
  std::int64_t mark;  ///< twice the number of levels taken so far, plus one if it was set by hand

  [[nodiscard]] std::size_t taken() const { return static_cast<std::size_t>(mark / 2); }
  [[nodiscard]] bool by_hand() const { return mark % 2 == 1; }
};
static_assert(kIsState<Lock>);

struct LockRecord {
  Lock lock;
  Micros expires_at;

  /// The instant at which the lock is judged: not before it began.
  [[nodiscard]] Micros instant(Micros reading) const { return std::max(reading, lock.start); }
  [[nodiscard]] bool holds(Micros reading) const { return instant(reading) < lock.end; }
  /// How long it still holds.
  [[nodiscard]] Micros left(Micros reading) const { return std::max<Micros>(0, lock.end - instant(reading)); }
};

/// Finds the record of a lock: eight letters where other records have a hash.
inline constexpr std::uint64_t kLockTag =
    std::bit_cast<std::uint64_t>(std::array<char, 8>{'p', 'e', 'n', 'a', 'l', 't', 'y', '\0'});

/// The record as found, unless it is forgotten or none of ours.
inline std::optional<LockRecord> remembered(Micros expires_at, const Header& header, Micros reading) {
  const auto lock = std::bit_cast<Lock>(header);
  if (expires_at <= std::max(reading, lock.start) || lock.start >= kMaxTime) return std::nullopt;
  return LockRecord{lock, expires_at};
}

/// The lock of this level (the last one for any beyond), from this instant on.
inline LockRecord locked(const Penalty& penalty, std::size_t level, Micros now) {
  level = std::min(level, penalty.levels.size() - 1);
  const Micros end = now + penalty.levels[level];
  return {{now, end, 2 * static_cast<std::int64_t>(level + 1)}, end + penalty.forgets(level)};
}

/// The lock that a violation sets: of the level after the one remembered.
inline LockRecord next_lock(const Penalty& penalty, const std::optional<LockRecord>& before, Micros reading) {
  if (!before) return locked(penalty, 0, reading);
  return locked(penalty, before->lock.taken(), before->instant(reading));
}

/// Whether a hit of who is locked changes the lock, and what it becomes.
inline bool extends(const Penalty& penalty, const LockRecord& record) {
  return penalty.extend && !record.lock.by_hand();
}
inline LockRecord extended(const Penalty& penalty, const LockRecord& record, Micros reading) {
  return locked(penalty, std::max<std::size_t>(record.lock.taken(), 1) - 1, record.instant(reading));
}

/// A lock set by hand: it keeps the level, and how long after the lock that is remembered.
inline LockRecord locked_by_hand(const std::optional<LockRecord>& before, Micros reading, Micros duration) {
  if (!before) return {{reading, later(reading, duration), 1}, later(reading, duration)};
  const Micros now = before->instant(reading);
  const Micros end = later(now, duration);
  const auto taken = static_cast<std::int64_t>(before->lock.taken());
  const Micros memory = taken > 0 ? std::max<Micros>(0, before->expires_at - before->lock.end) : 0;
  return {{now, end, 2 * taken + 1}, later(end, memory)};
}

}  // namespace overlimit
