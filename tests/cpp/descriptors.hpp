// Descriptors of a test's own that become ready when it says so.
#pragma once

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <stdexcept>
#include <utility>

#include "overlimit/non_copyable.hpp"

namespace overlimit::testing {

/// Two connected sockets.
class SocketPair : NonCopyable {
 public:
  SocketPair() {
    if (::socketpair(AF_UNIX, SOCK_STREAM, 0, ends_.data()) != 0) throw std::runtime_error("no sockets");
  }
  ~SocketPair() {
    close();
    close_peer();
  }

  [[nodiscard]] int fd() const { return ends_[0]; }
  /// Makes it readable.
  void send() const {
    if (::write(ends_[1], "x", 1) != 1) throw std::runtime_error("not sent");
  }
  void receive() const {
    char byte = 0;
    if (::read(ends_[0], &byte, 1) != 1) throw std::runtime_error("not received");
  }
  /// Ends only when nothing more can be written to it.
  void fill() const {
    const std::array<char, 4096> bytes{};
    while (::send(ends_[0], bytes.data(), bytes.size(), MSG_DONTWAIT) > 0) continue;
  }
  /// Makes it writable again.
  void drain() const {
    std::array<char, 4096> bytes{};
    while (::recv(ends_[1], bytes.data(), bytes.size(), MSG_DONTWAIT) > 0) continue;
  }
  void close() { close(ends_[0]); }
  void close_peer() { close(ends_[1]); }

 private:
  static void close(int& fd) {
    if (fd >= 0) ::close(std::exchange(fd, -1));
  }

  std::array<int, 2> ends_{-1, -1};
};

/// Whether it becomes readable within so many milliseconds.
inline bool becomes_readable(int fd, int milliseconds = 30'000) {
  pollfd polled{fd, POLLIN, 0};
  return ::poll(&polled, 1, milliseconds) > 0;
}

/// Whether it is not readable, nor becomes so soon.
inline bool stays_silent(int fd) { return !becomes_readable(fd, 30); }

}  // namespace overlimit::testing
