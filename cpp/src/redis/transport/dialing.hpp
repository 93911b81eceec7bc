// One attempt to connect, step by step.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "redis/transport/dialer.hpp"
#include "redis/transport/wait.hpp"

namespace overlimit::redis::transport {

/// Resolves the host and tries its addresses in turn, each with its share of the time left. Not thread-safe.
class Dialing {
 public:
  Dialing(std::shared_ptr<Dialer> dialer, const Deadline& deadline);
  Dialing(const Dialing&) = delete;
  Dialing& operator=(const Dialing&) = delete;

  /// Goes on without waiting; a stream once it is connected. Throws StoreUnavailable (refused, unreachable,
  /// no such host), StoreTimeout, StoreConfigError (a unix path that is none, a file for TLS that cannot be
  /// used). Nothing was sent then, and there is no next step.
  [[nodiscard]] std::unique_ptr<Stream> step();

  /// Waits for the next step, at most so long.
  [[nodiscard]] Woken wait(const Deadline& deadline) const;

 private:
  enum class Progress { connected, pending, failed };

  [[nodiscard]] bool find_addresses();
  [[nodiscard]] Progress connect_to(const Address& address);
  [[nodiscard]] Progress go_on();
  [[nodiscard]] bool try_next();
  [[noreturn]] void fail() const;

  const std::shared_ptr<Dialer> dialer_;
  const Deadline deadline_;
  std::shared_ptr<const Lookup> lookup_;
  std::vector<Address> addresses_;
  std::size_t tried_ = 0;      // of the addresses; the last one is being connected to
  Deadline until_{deadline_};  // of that
  Socket socket_;
  bool is_full_ = false;  // the backlog of a unix socket, for whose end one cannot wait
  int error_ = 0;         // of the last address
};

/// Connects before the deadline. Throws as step() does, and as pause() (pause.hpp).
[[nodiscard]] std::unique_ptr<Stream> dialed(std::shared_ptr<Dialer> dialer, const Deadline& deadline,
                                             const Interrupted& interrupted);

}  // namespace overlimit::redis::transport
