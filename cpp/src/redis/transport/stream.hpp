// The bytes of one connection, whatever carries them.
#pragma once

#include <cstddef>
#include <string_view>

#include "redis/transport/transfer.hpp"
#include "redis/transport/wait.hpp"

namespace overlimit::redis::transport {

/// Nothing here but receive_within() waits; nothing raises SIGPIPE or speaks to the peer unasked: what a
/// stream has to agree on with its peer first, it does within the first attempts to send and receive.
/// Destroying one is close(2) alone, which leaves a copy in another process undisturbed. One thread may send
/// while another receives.
class Stream {
 public:
  /// Of what receive() is given, so that nothing it could have returned stays behind, unseen by poll(2).
  static constexpr std::size_t kLeastBuffer = 16 * 1024;

  Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  virtual ~Stream() = default;

  [[nodiscard]] virtual int fd() const noexcept = 0;

  /// Counts the first of `bytes` that may have left; the peer can make nothing of the others until they are
  /// counted, too. The next attempt must begin with those, and may add to them. `bytes` is not empty.
  ///
  /// Throws, as receive() does, StoreConfigError when one side refuses the other for how it is configured.
  /// The peer has executed nothing then, and the stream is of no more use.
  [[nodiscard]] virtual Transfer send(std::string_view bytes) = 0;
  /// `size` is kLeastBuffer at least.
  [[nodiscard]] virtual Transfer receive(char* buffer, std::size_t size) = 0;

  /// Waits for something to receive, perhaps not until the deadline, and receives it.
  [[nodiscard]] virtual Woken receive_within(char* buffer, std::size_t size, const Deadline& deadline,
                                             Transfer& transfer) {
    const Woken woken = wait_for(fd(), receiving_events(), deadline);
    if (woken == Woken::by_event) transfer = receive(buffer, size);
    return woken;
  }

  /// The poll(2) events to wait for before the next attempt to receive, and to send.
  [[nodiscard]] virtual short receiving_events() const noexcept = 0;
  [[nodiscard]] virtual short sending_events() const noexcept = 0;

  /// Ends it both ways, which whoever waits for it notices.
  virtual void shut_down() const noexcept = 0;
};

}  // namespace overlimit::redis::transport
