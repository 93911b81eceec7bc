// Descriptors that the programs which this process starts do not inherit.
#pragma once

#include <array>

namespace overlimit::platform {

/// A stream socket that never waits and raises no SIGPIPE (sending.hpp); -1 with errno when the system
/// refuses. Where a socket is not made so in one step, a program that another thread starts at this very
/// moment inherits it.
[[nodiscard]] int open_stream_socket(int family) noexcept;

/// A pipe to read from its first end and write to the second; false with errno when the system refuses.
[[nodiscard]] bool open_pipe(std::array<int, 2>& ends) noexcept;

}  // namespace overlimit::platform
