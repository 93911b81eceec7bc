#include "platform/keepalive.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace overlimit::platform {

void keep_alive(int fd, [[maybe_unused]] const Keepalive& how) noexcept {
  const auto set = [fd](int level, int name, int value) {
    ::setsockopt(fd, level, name, &value, sizeof value);
  };
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
#ifndef OVERLIMIT_PORTABLE
#if defined(TCP_KEEPIDLE)
  set(IPPROTO_TCP, TCP_KEEPIDLE, how.idle_seconds);
#elif defined(TCP_KEEPALIVE)
  set(IPPROTO_TCP, TCP_KEEPALIVE, how.idle_seconds);
#endif
#ifdef TCP_KEEPINTVL
  set(IPPROTO_TCP, TCP_KEEPINTVL, how.interval_seconds);
#endif
#ifdef TCP_KEEPCNT
  set(IPPROTO_TCP, TCP_KEEPCNT, how.probes);
#endif
#ifdef TCP_USER_TIMEOUT
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, how.unanswered_ms);
#endif
#endif
}

}  // namespace overlimit::platform
