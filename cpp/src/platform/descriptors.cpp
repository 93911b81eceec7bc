#include "platform/descriptors.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

namespace overlimit::platform {

#if defined(__linux__) && !defined(OVERLIMIT_PORTABLE)

int open_stream_socket(int family) noexcept {
  return ::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

bool open_pipe(std::array<int, 2>& ends) noexcept { return ::pipe2(ends.data(), O_CLOEXEC) == 0; }

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

#endif

}  // namespace overlimit::platform
