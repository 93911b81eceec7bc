// Noticing that the peer of an idle TCP connection has vanished.
#pragma once

namespace overlimit::platform {

struct Keepalive {
  int idle_seconds;      ///< without a word, until the first probe
  int interval_seconds;  ///< between the probes
  int probes;            ///< without an answer, until the connection is lost
  int unanswered_ms;     ///< how long bytes may be under way
};

/// Has the kernel probe the connection: so, or where it has no such options, as the system is configured.
void keep_alive(int fd, const Keepalive& how) noexcept;

}  // namespace overlimit::platform
