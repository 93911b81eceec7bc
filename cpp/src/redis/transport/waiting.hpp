// Deadlines, and the waits that respect them.
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>

#include "overlimit/errors.hpp"
#include "overlimit/fibers.hpp"

namespace overlimit::redis::transport {

/// The steady clock, as whoever waits for a call goes by it: see Fibers::now().
struct CallClock : std::chrono::steady_clock {
  static time_point now() noexcept { return Fibers::now(); }
};

/// The end of the time that one whole call may take: a point of the steady clock. A value.
class Deadline {
 public:
  using Clock = CallClock;

  /// With a timeout of zero or less it has passed already; a timeout of more than a year counts as a year.
  explicit Deadline(std::chrono::microseconds timeout)
      : at_(Clock::now() + std::clamp(timeout, -kLongest, kLongest)) {}
  explicit Deadline(Clock::time_point at) noexcept : at_(at) {}
  [[nodiscard]] Clock::time_point at() const noexcept { return at_; }
  [[nodiscard]] bool passed() const noexcept { return Clock::now() >= at_; }
  /// Zero once it has passed.
  [[nodiscard]] Clock::duration remaining() const noexcept {
    return std::max(at_ - Clock::now(), Clock::duration::zero());
  }
  /// An earlier deadline, after the n-th part of the remaining time.
  [[nodiscard]] Deadline share(int n) const noexcept { return Deadline(Clock::now() + remaining() / n); }

 private:
  static constexpr std::chrono::microseconds kLongest = std::chrono::hours{24 * 365};

  Clock::time_point at_;
};

inline const Interrupted kUninterrupted;

/// How long a call may wait, and what ends it before. Borrows interrupted().
struct Wait {
  Deadline deadline;
  const Interrupted& interrupted = kUninterrupted;

  /// An earlier end, after the n-th part of the remaining time.
  [[nodiscard]] Wait share(int n) const noexcept { return {deadline.share(n), interrupted}; }
};

/// Every wait ends after this time as if by a signal, since a signal right before the wait does not end it.
inline constexpr std::chrono::milliseconds kLongestWait{20};

/// What ended a wait. by_signal means that a signal may have come, or a fiber was interrupted.
using Woken = Fibers::Woken;

/// Waits for one of the poll(2) `events` of `fd` or its failure; for -1 for the deadline alone. Checks at
/// least once. Blocks the thread, or suspends the fiber that runs in it. Throws std::bad_alloc when the
/// system has no memory to wait with.
[[nodiscard]] Woken wait_for(int fd, short events, const Deadline& deadline);

/// Whether one of the poll(2) `events` of `fd`, or its failure, has come. Does not wait.
[[nodiscard]] bool is_ready(int fd, short events) noexcept;

/// The end of a wait that may last until the deadline.
[[nodiscard]] inline Deadline end_of_wait(const Deadline& deadline) {
  return Deadline(std::min(deadline.at(), Deadline::Clock::now() + kLongestWait));
}
/// What it means that a wait lasted until that end.
[[nodiscard]] inline Woken at_end_of_wait(const Deadline& end, const Deadline& deadline) noexcept {
  return end.at() < deadline.at() ? Woken::by_signal : Woken::by_deadline;
}

/// To be called when a signal ended a wait. Throws WaitInterrupted if interrupted() ends the call or the
/// fiber was interrupted, what interrupted() throws, and StoreUnavailable in a child that it forked: the call
/// is the parent's.
void check_interrupted(const Interrupted& interrupted);

/// As wait_for(), but signals alone do not end it: whether an event came. Throws as check_interrupted() does.
[[nodiscard]] bool await(int fd, short events, const Wait& wait);

/// Sleeps. Throws as check_interrupted() does.
void pause(Deadline::Clock::duration duration, const Interrupted& interrupted);

/// The pauses between the attempts of one call: random up to a bound that doubles (full jitter).
class Backoff {
 public:
  /// Returns whether there is time for another attempt: false at once when the pause would leave less than
  /// the reserve. Throws as check_interrupted() does.
  [[nodiscard]] bool pause(const Wait& wait);

 private:
  static constexpr std::chrono::microseconds kLeastBound{2'000};
  static constexpr std::chrono::microseconds kMostBound{100'000};

  /// An eighth of what remains at the first pause, but no more than this.
  static constexpr std::chrono::milliseconds kMostReserve{25};
  static constexpr int kShareOfReserve = 8;

  std::chrono::microseconds bound_ = kLeastBound;
  /// The time before the deadline in which no attempt begins: if its answer came too late, nobody would know
  /// whether the call was charged, and the answer to the attempt before, that it was not, would be lost.
  std::optional<Deadline::Clock::duration> reserve_;
};

/// A random duration, uniform from zero to `most`.
[[nodiscard]] std::chrono::microseconds jittered(std::chrono::microseconds most);

}  // namespace overlimit::redis::transport
