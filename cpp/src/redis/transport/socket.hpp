// A connected stream socket.
#pragma once

#include <chrono>
#include <cstddef>
#include <string_view>

#include "redis/transport/open_descriptors.hpp"
#include "redis/transport/transfer.hpp"
#include "redis/transport/wait.hpp"

namespace overlimit::redis::transport {

/// Move-only. Nothing raises SIGPIPE, and only receive_waiting() waits. A forked child does not keep it.
class Socket {
 public:
  Socket() noexcept = default;
  /// Takes over an open one; not open when the number is negative.
  explicit Socket(int fd) : descriptor_(OwnDescriptor::opened([fd] { return fd; })) {}
  /// A stream socket; not open when the system has none, which errno tells.
  [[nodiscard]] static Socket new_stream(int family);

  /// -1 when there is none.
  [[nodiscard]] int fd() const noexcept { return descriptor_.fd(); }
  [[nodiscard]] bool is_open() const noexcept { return fd() >= 0; }

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
  OwnDescriptor descriptor_;
};

}  // namespace overlimit::redis::transport
