// A connected socket, and the stream over it that is not encrypted.
#pragma once

#include <poll.h>

#include <chrono>
#include <cstddef>
#include <string_view>
#include <utility>

#include "redis/transport/per_process.hpp"
#include "redis/transport/stream.hpp"
#include "redis/transport/waiting.hpp"

namespace overlimit::redis::transport {

/// Move-only. Nothing raises SIGPIPE, and only receive_waiting() waits. A forked child does not keep it.
class Socket {
 public:
  Socket() noexcept = default;
  /// Takes over an open descriptor; not open when it is negative.
  explicit Socket(int fd) : descriptor_(OwnDescriptor::opened([fd] { return fd; })) {}
  /// A new stream socket; not open when the system refuses, see errno.
  [[nodiscard]] static Socket new_stream(int family);

  /// -1 when there is none.
  [[nodiscard]] int fd() const noexcept { return descriptor_.fd(); }
  [[nodiscard]] bool is_open() const noexcept { return fd() >= 0; }

  [[nodiscard]] Transfer send(std::string_view bytes) const noexcept;
  /// `size` > 0.
  [[nodiscard]] Transfer receive(char* buffer, std::size_t size) const noexcept;
  /// How long receive_waiting() waits; to be set before.
  void wait_at_most(std::chrono::microseconds longest) const noexcept;
  /// Waits for bytes, no longer than set by wait_at_most(), and receives them. Never returns by_deadline.
  [[nodiscard]] Woken receive_waiting(char* buffer, std::size_t size, Transfer& transfer) const noexcept;
  /// Shuts the connection down both ways, which wakes those who wait for it.
  void shut_down() const noexcept;

 private:
  OwnDescriptor descriptor_;
};

/// A stream without TLS.
class PlainStream final : public Stream {
 public:
  explicit PlainStream(Socket socket) noexcept : socket_(std::move(socket)) {
    socket_.wait_at_most(kLongestWait);
  }

  [[nodiscard]] int fd() const noexcept override { return socket_.fd(); }
  [[nodiscard]] Transfer send(std::string_view bytes) override { return socket_.send(bytes); }
  [[nodiscard]] Transfer receive(char* buffer, std::size_t size) override {
    return socket_.receive(buffer, size);
  }
  /// Waits and receives in one system call if the deadline is far enough.
  [[nodiscard]] Woken receive_within(char* buffer, std::size_t size, const Deadline& deadline,
                                     Transfer& transfer) override {
    if (deadline.remaining() < kLongestWait) return Stream::receive_within(buffer, size, deadline, transfer);
    return socket_.receive_waiting(buffer, size, transfer);
  }
  [[nodiscard]] short receiving_events() const noexcept override { return POLLIN; }
  [[nodiscard]] short sending_events() const noexcept override { return POLLOUT; }
  void shut_down() const noexcept override { socket_.shut_down(); }

 private:
  Socket socket_;
};

}  // namespace overlimit::redis::transport
