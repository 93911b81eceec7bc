// The bytes of one connection, whatever carries them.
#pragma once

#include <cstddef>
#include <string_view>
#include <system_error>

#include "redis/transport/waiting.hpp"

namespace overlimit::redis::transport {

/// What one attempt to send or receive has done.
struct Transfer {
  std::size_t count = 0;
  std::error_code error;  ///< none if it would block, which is a count of 0
  bool end = false;       ///< the peer has closed its side; only when receiving
};

/// Only receive_within() waits, nothing raises SIGPIPE, and nothing is sent to the peer unasked: a stream
/// with a handshake of its own does it within the first attempts to send and receive. Destroying a stream is
/// close(2) alone, which leaves a copy in another process undisturbed. One thread may send while another
/// receives.
class Stream {
 public:
  /// The smallest buffer for receive(), so that no bytes stay behind in the stream, unseen by poll(2).
  static constexpr std::size_t kLeastBuffer = std::size_t{16} * 1024;

  Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  virtual ~Stream() = default;

  [[nodiscard]] virtual int fd() const noexcept = 0;

  /// Returns how many of the first `bytes` may have been sent; the peer cannot read the others before they
  /// are counted too. The next attempt must begin with those, and may add to them. `bytes` is not empty.
  ///
  /// Throws, as receive() does, StoreConfigError when one side refuses the other because of its
  /// configuration. The peer has executed nothing then, and the stream cannot be used any more.
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

}  // namespace overlimit::redis::transport
