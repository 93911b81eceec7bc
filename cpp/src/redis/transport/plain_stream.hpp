// A connection in the clear.
#pragma once

#include <poll.h>

#include <utility>

#include "redis/transport/socket.hpp"
#include "redis/transport/stream.hpp"

namespace overlimit::redis::transport {

class PlainStream final : public Stream {
 public:
  explicit PlainStream(Socket socket) noexcept : socket_(std::move(socket)) {}

  [[nodiscard]] int fd() const noexcept override { return socket_.fd(); }
  [[nodiscard]] Transfer send(std::string_view bytes) override { return socket_.send(bytes); }
  [[nodiscard]] Transfer receive(char* buffer, std::size_t size) override {
    return socket_.receive(buffer, size);
  }
  [[nodiscard]] short receiving_events() const noexcept override { return POLLIN; }
  [[nodiscard]] short sending_events() const noexcept override { return POLLOUT; }
  void shut_down() const noexcept override { socket_.shut_down(); }

 private:
  Socket socket_;
};

}  // namespace overlimit::redis::transport
