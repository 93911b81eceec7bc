// The bytes of one connection: streams, whatever carries them, and sockets.
#pragma once

#include <poll.h>

#include <chrono>
#include <cstddef>
#include <string_view>
#include <system_error>

#include "redis/transport/per_process.hpp"
#include "redis/transport/waiting.hpp"

namespace overlimit::redis::transport {

/// What one attempt to send or receive has done.
struct Transfer {
  std::size_t count = 0;
  std::error_code error;  ///< none if it would block, which is a count of 0
  bool end = false;       ///< the peer has closed its side; only when receiving
};

/// Only receive_within() waits, nothing raises SIGPIPE, and nothing is sent unasked: a handshake is done
/// within the first attempts to send and receive. Destroying a stream is close(2) alone. One thread may send
/// while another receives.
class Stream {
 public:
  /// The smallest buffer for receive(), so that no bytes stay behind in the stream, unseen by poll(2).
  static constexpr std::size_t kLeastBuffer = std::size_t{16} * 1024;

  virtual ~Stream() = default;
  [[nodiscard]] virtual int fd() const noexcept = 0;

  /// Returns how many of the first `bytes`, which are not none, may have been sent; the peer cannot read the
  /// others before they are counted too, and the next attempt begins with them. Throws, as receive() does,
  /// StoreConfigError when one side refuses the other because of its configuration: the peer has executed
  /// nothing, and the stream is of no more use.
  [[nodiscard]] virtual Transfer send(std::string_view bytes) = 0;
  /// `size` is at least kLeastBuffer.
  [[nodiscard]] virtual Transfer receive(char* buffer, std::size_t size) = 0;

  /// Waits for bytes, perhaps for less than until the deadline, and receives them.
  [[nodiscard]] virtual Woken receive_within(char* buffer, std::size_t size, const Deadline& deadline,
                                             Transfer& transfer) {
    const Woken woken = wait_for(fd(), receiving_events(), deadline);
    if (woken == Woken::by_event) transfer = receive(buffer, size);
    return woken;
  }

  /// The poll(2) events to wait for before the next attempt to receive, and to send.
  [[nodiscard]] virtual short receiving_events() const noexcept = 0;
  [[nodiscard]] virtual short sending_events() const noexcept = 0;
  /// Shuts the connection down both ways, which wakes those who wait for it.
  virtual void shut_down() const noexcept = 0;
};

/// Move-only. Nothing raises SIGPIPE, and only receive_waiting() waits. A forked child does not keep it.
class Socket {
 public:
  Socket() noexcept = default;
  /// Takes over an open descriptor; not open when it is negative.
  explicit Socket(int fd) : descriptor_(OwnDescriptor::opened([fd] { return fd; })) {}
  /// A new stream socket; not open when the system refuses, see errno.
  [[nodiscard]] static Socket new_stream(int family);
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
  /// Waits and receives in one system call if the deadline is far enough, and the thread may be blocked.
  [[nodiscard]] Woken receive_within(char* buffer, std::size_t size, const Deadline& deadline,
                                     Transfer& transfer) override {
    if (Fibers::current() != nullptr || deadline.remaining() < kLongestWait)
      return Stream::receive_within(buffer, size, deadline, transfer);
    return socket_.receive_waiting(buffer, size, transfer);
  }
  [[nodiscard]] short receiving_events() const noexcept override { return POLLIN; }
  [[nodiscard]] short sending_events() const noexcept override { return POLLOUT; }
  void shut_down() const noexcept override { socket_.shut_down(); }

 private:
  Socket socket_;
};

}  // namespace overlimit::redis::transport
