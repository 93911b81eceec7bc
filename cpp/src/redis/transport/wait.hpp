// Waiting for a descriptor: the only place of the transport that sleeps.
#pragma once

#include <functional>

#include "redis/transport/deadline.hpp"

namespace overlimit::redis::transport {

/// Called when a signal interrupts a wait; true ends it with WaitInterrupted. Empty: never. The same as the
/// store's (store.hpp).
using Interrupted = std::function<bool()>;

/// Whether one of the poll(2) `events` of `fd`, or its failure, came before the deadline. Looks at least
/// once, even when the deadline has passed. Throws WaitInterrupted, what interrupted() throws, and
/// std::bad_alloc when the system has no memory to wait with.
[[nodiscard]] bool wait_for(int fd, short events, const Deadline& deadline, const Interrupted& interrupted);

}  // namespace overlimit::redis::transport
