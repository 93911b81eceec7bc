// Penalties: an identifier that goes over a limit is locked for a while, and for longer each time. A lock is
// one more record of a key, after those of its limits; its level is remembered for as long as that record
// lives.
#pragma once

#include <algorithm>
#include <bit>
#include <optional>
#include <vector>

#include "overlimit/algorithms/step.hpp"

namespace overlimit {

struct Penalty {
  static constexpr std::size_t kMaxLevels = 64;

  std::vector<Duration> levels;  ///< how long each lock lasts; the last repeats
  bool extend = false;           ///< whether a hit during a lock starts the lock anew
  std::optional<Duration>
      forget_after{};  ///< how long after a lock its level is remembered; none: for its length

  /// Throws InvalidLimit naming the argument: no level or too many, or a duration out of range.
  void check() const;
  [[nodiscard]] Duration forgets(std::size_t level) const { return forget_after.value_or(levels[level]); }
  /// The length of each level and for how long it is remembered: the numbers that a script reads.
  [[nodiscard]] std::vector<std::int64_t> packed() const;
};

/// A lock: it holds in [start, end), and is remembered until its record expires.
struct Lock {
  Instant start;
  Instant end;
  std::size_t levels_taken;  ///< by the violations so far
  bool by_hand;              ///< set by lock(), and not by a violation
  Instant expires_at;

  /// The instant at which the lock is judged: not before it began.
  [[nodiscard]] Instant instant(Instant reading) const { return max(reading, start); }
  [[nodiscard]] bool holds(Instant reading) const { return instant(reading) < end; }
  [[nodiscard]] Duration time_left(Instant reading) const { return max(Duration{}, end - instant(reading)); }
};

/// The header of a lock's record. Its third number is twice the levels taken, plus one if set by hand.
inline Header header_of(const Lock& lock) {
  return {lock.start.micros(), lock.end.micros(),
          2 * static_cast<std::int64_t>(lock.levels_taken) + (lock.by_hand ? 1 : 0)};
}
inline Lock lock_from(const Header& header, Instant expires_at) {
  return {Instant(header[0]), Instant(header[1]), static_cast<std::size_t>(header[2] / 2), header[2] % 2 == 1,
          expires_at};
}

/// The tag of a lock's record: eight letters where other records have a hash.
inline constexpr std::uint64_t kLockTag =
    std::bit_cast<std::uint64_t>(std::array<char, 8>{'p', 'e', 'n', 'a', 'l', 't', 'y', '\0'});

/// The lock in a record as found, unless it is forgotten or was not written by us.
inline std::optional<Lock> remembered_lock(Instant expires_at, const Header& header, Instant reading) {
  const Lock lock = lock_from(header, expires_at);
  if (expires_at <= max(reading, lock.start) || lock.start >= kMaxTime) return std::nullopt;
  return lock;
}

/// The lock of this level (the last one for any beyond), from this instant on.
inline Lock lock_of_level(const Penalty& penalty, std::size_t level, Instant now) {
  level = std::min(level, penalty.levels.size() - 1);
  const Instant end = now + penalty.levels[level];
  return {now, end, level + 1, false, end + penalty.forgets(level)};
}

/// The lock that a violation sets: of the level after the one remembered.
inline Lock next_lock(const Penalty& penalty, const std::optional<Lock>& before, Instant reading) {
  if (!before) return lock_of_level(penalty, 0, reading);
  return lock_of_level(penalty, before->levels_taken, before->instant(reading));
}

/// Whether a hit on a locked identifier changes the lock, and what it becomes.
inline bool extends(const Penalty& penalty, const Lock& lock) { return penalty.extend && !lock.by_hand; }
inline Lock extended(const Penalty& penalty, const Lock& lock, Instant reading) {
  return lock_of_level(penalty, std::max<std::size_t>(lock.levels_taken, 1) - 1, lock.instant(reading));
}

/// A lock set by hand: it keeps the level, and how long after the lock that is remembered.
inline Lock locked_by_hand(const std::optional<Lock>& before, Instant reading, Duration duration) {
  if (!before) return {reading, later(reading, duration), 0, true, later(reading, duration)};
  const Instant now = before->instant(reading);
  const Instant end = later(now, duration);
  const Duration memory =
      before->levels_taken > 0 ? max(Duration{}, before->expires_at - before->end) : Duration{};
  return {now, end, before->levels_taken, true, later(end, memory)};
}

}  // namespace overlimit
