// Sending to a peer that may be gone, without SIGPIPE, whose default is to end the process.
#pragma once

#include <sys/types.h>

#include <string_view>

namespace overlimit::platform {

/// As send(2) on a socket of open_stream_socket(), without waiting. No signal is blocked for it: a thread
/// that changes what it blocks may take one, such as Ctrl-C's, from the main thread, which then sleeps on.
[[nodiscard]] ssize_t send(int fd, std::string_view bytes) noexcept;

}  // namespace overlimit::platform
