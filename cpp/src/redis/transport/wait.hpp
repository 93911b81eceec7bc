// Waiting: the only places of the transport that sleep are wait_for() and Belfry::wait().
#pragma once

#include <cstdint>
#include <functional>

#include "redis/transport/deadline.hpp"

namespace overlimit::redis::transport {

/// Called when a signal interrupts a wait; true ends it with WaitInterrupted. Empty: never. The same as the
/// store's (store.hpp).
using Interrupted = std::function<bool()>;

/// What ended a wait.
enum class Woken : std::uint8_t { by_event, by_deadline, by_signal };

/// Waits until one of the poll(2) `events` of `fd`, or its failure; without a descriptor (-1) for the
/// deadline alone. Looks at least once, even when the deadline has passed. Throws std::bad_alloc when the
/// system has no memory to wait with.
[[nodiscard]] Woken wait_for(int fd, short events, const Deadline& deadline);

}  // namespace overlimit::redis::transport
