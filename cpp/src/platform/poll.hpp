// Waiting for a descriptor for less than a millisecond, too.
#pragma once

#include <poll.h>

#include <chrono>

namespace overlimit::platform {

/// As poll(2) of one descriptor. Where there is no ppoll(2), the time is rounded up to whole milliseconds.
[[nodiscard]] int poll(pollfd& polled, std::chrono::nanoseconds longest) noexcept;

}  // namespace overlimit::platform
