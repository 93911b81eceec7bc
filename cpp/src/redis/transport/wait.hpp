// Waiting: the only places of the transport that sleep are wait_for() and Belfry::wait().
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>

#include "redis/transport/deadline.hpp"

namespace overlimit::redis::transport {

/// Called when a signal interrupts a wait; true ends it with WaitInterrupted. Empty: never. The same as the
/// store's (store.hpp).
using Interrupted = std::function<bool()>;

/// Every wait ends after so long as if by a signal: one that came right before it would not have ended it.
inline constexpr std::chrono::milliseconds kLongestWait{20};

/// What ended a wait; by_signal: perhaps.
enum class Woken : std::uint8_t { by_event, by_deadline, by_signal };

/// Waits until one of the poll(2) `events` of `fd`, or its failure; without a descriptor (-1) for the
/// deadline alone. Looks at least once, even when the deadline has passed. Throws std::bad_alloc when the
/// system has no memory to wait with.
[[nodiscard]] Woken wait_for(int fd, short events, const Deadline& deadline);

/// Without waiting: whether one of the `events` of `fd`, or its failure, has come.
[[nodiscard]] bool is_ready(int fd, short events) noexcept;

/// The end of a wait that may last until the deadline.
[[nodiscard]] inline Deadline end_of_wait(const Deadline& deadline) {
  return Deadline(std::min(deadline.at(), Deadline::Clock::now() + kLongestWait));
}
/// What it means that this end was reached.
[[nodiscard]] inline Woken at_end_of_wait(const Deadline& end, const Deadline& deadline) noexcept {
  return end.at() < deadline.at() ? Woken::by_signal : Woken::by_deadline;
}

}  // namespace overlimit::redis::transport
