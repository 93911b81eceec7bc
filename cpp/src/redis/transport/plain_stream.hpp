// A connection in the clear.
#pragma once

#include <poll.h>

#include <chrono>
#include <utility>

#include "redis/transport/socket.hpp"
#include "redis/transport/stream.hpp"

namespace overlimit::redis::transport {

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
  /// In one system call, where the deadline is far enough.
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
