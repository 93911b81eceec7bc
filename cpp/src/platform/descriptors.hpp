// What systems differ in about descriptors: how they are opened, waited for and written to, and how a peer is
// noticed that has vanished.
#pragma once

#include <poll.h>
#include <sys/types.h>

#include <array>
#include <chrono>
#include <string_view>

namespace overlimit::platform {

/// A stream socket that never waits and raises no SIGPIPE in send(); -1 with errno when the system refuses.
/// Programs that this process starts do not inherit it; where a socket is not made so in one step, one that
/// another thread starts at this very moment does.
[[nodiscard]] int open_stream_socket(int family) noexcept;

/// A pipe to read from its first end and write to the second; false with errno when the system refuses. It is
/// not inherited either.
[[nodiscard]] bool open_pipe(std::array<int, 2>& ends) noexcept;

/// As poll(2) of one descriptor. Where there is no ppoll(2), the time is rounded up to whole milliseconds.
[[nodiscard]] int poll(pollfd& polled, std::chrono::nanoseconds longest) noexcept;

/// As send(2) on a socket of open_stream_socket(), without waiting, and without SIGPIPE, whose default is to
/// end the process, if the peer is gone. No signal is blocked for it: a thread that changes what it blocks
/// may take one, such as Ctrl-C's, from the main thread, which then sleeps on.
[[nodiscard]] ssize_t send(int fd, std::string_view bytes) noexcept;

struct Keepalive {
  int idle_seconds;      ///< without a word, until the first probe
  int interval_seconds;  ///< between the probes
  int probes;            ///< without an answer, until the connection is lost
  int unanswered_ms;     ///< how long bytes may be under way
};

/// Has the kernel probe the peer of an idle TCP connection: so, or where it has no such options, as the
/// system is configured.
void keep_alive(int fd, const Keepalive& how) noexcept;

}  // namespace overlimit::platform
