// Waits that a signal ends only if the caller says so.
#pragma once

#include "redis/transport/deadline.hpp"
#include "redis/transport/wait.hpp"

namespace overlimit::redis::transport {

/// To be called when a signal ended a wait. Throws WaitInterrupted if that ends the call, what interrupted()
/// throws, and StoreUnavailable in a child that was forked by it, as the call is its parent's.
void heed_signal(const Interrupted& interrupted);

/// As wait_for(), whatever signals come; whether an event came. Throws as heed_signal() does.
[[nodiscard]] bool await(int fd, short events, const Deadline& deadline, const Interrupted& interrupted);

/// Sleeps for so long. Throws as heed_signal() does.
void pause(Deadline::Clock::duration duration, const Interrupted& interrupted);

}  // namespace overlimit::redis::transport
