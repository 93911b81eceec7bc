// A connected stream socket.
#pragma once

#include <chrono>
#include <cstddef>
#include <string_view>
#include <utility>

#include "redis/transport/open_descriptors.hpp"
#include "redis/transport/transfer.hpp"
#include "redis/transport/wait.hpp"

namespace overlimit::redis::transport {

/// Owns a descriptor and closes it with close(2) alone, which leaves a copy in another process undisturbed.
/// Move-only. Nothing raises SIGPIPE, and only receive_waiting() waits.
class Socket {
 public:
  Socket() noexcept = default;
  explicit Socket(int fd) noexcept : fd_(fd) {}
  /// A stream socket that a forked child does not keep; not open when the system has none, which errno tells.
  [[nodiscard]] static Socket of_this_process(int family);
  Socket(Socket&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)), listed_(std::exchange(other.listed_, nullptr)) {}
  Socket& operator=(Socket&& other) noexcept {
    Socket old(std::move(*this));
    fd_ = std::exchange(other.fd_, -1);
    listed_ = std::exchange(other.listed_, nullptr);
    return *this;
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  ~Socket();

  /// -1 when there is none.
  [[nodiscard]] int fd() const noexcept { return fd_; }
  [[nodiscard]] bool is_open() const noexcept { return fd_ >= 0; }

  [[nodiscard]] Transfer send(std::string_view bytes) const noexcept;
  /// `size` > 0.
  [[nodiscard]] Transfer receive(char* buffer, std::size_t size) const noexcept;
  /// How long receive_waiting() waits; to be set before.
  void wait_at_most(std::chrono::microseconds longest) const noexcept;
  /// Waits for something to receive, for no longer than was set, and receives it. Never by_deadline.
  [[nodiscard]] Woken receive_waiting(char* buffer, std::size_t size, Transfer& transfer) const noexcept;
  /// Ends it both ways, which whoever waits for it notices.
  void shut_down() const noexcept;

 private:
  int fd_ = -1;
  OpenDescriptors::Entry* listed_ = nullptr;
};

}  // namespace overlimit::redis::transport
