#include "platform/descriptors.hpp"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdint>
#include <ctime>

namespace overlimit::platform {

#if defined(__linux__) && !defined(OVERLIMIT_PORTABLE)

int open_stream_socket(int family) noexcept {
  return ::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

bool open_pipe(std::array<int, 2>& ends) noexcept { return ::pipe2(ends.data(), O_CLOEXEC) == 0; }

int poll(pollfd& polled, std::chrono::nanoseconds longest) noexcept {
  constexpr std::int64_t kSecond = 1'000'000'000;
  const timespec time{static_cast<std::time_t>(longest.count() / kSecond),
                      static_cast<long>(longest.count() % kSecond)};
  return ::ppoll(&polled, 1, &time, nullptr);
}

#else

int open_stream_socket(int family) noexcept {
  const int fd = ::socket(family, SOCK_STREAM, 0);
  if (fd < 0) return fd;
  ::fcntl(fd, F_SETFD, FD_CLOEXEC);
  ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
#if defined(SO_NOSIGPIPE)
  const int on = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_NOSIGPIPE, &on, sizeof on);
#endif
  return fd;
}

bool open_pipe(std::array<int, 2>& ends) noexcept {
  if (::pipe(ends.data()) != 0) return false;
  for (const int fd : ends) ::fcntl(fd, F_SETFD, FD_CLOEXEC);
  return true;
}

int poll(pollfd& polled, std::chrono::nanoseconds longest) noexcept {
  const auto milliseconds = std::chrono::ceil<std::chrono::milliseconds>(longest).count();
  return ::poll(&polled, 1, static_cast<int>(std::min<std::int64_t>(milliseconds, INT_MAX)));
}

#endif

ssize_t send(int fd, std::string_view bytes) noexcept {
#if defined(SO_NOSIGPIPE)  // as open_stream_socket() has set it
  constexpr int kNoSignal = 0;
#else
  constexpr int kNoSignal = MSG_NOSIGNAL;
#endif
  return ::send(fd, bytes.data(), bytes.size(), MSG_DONTWAIT | kNoSignal);
}

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
