// Opening connections to one endpoint.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "overlimit/redis_location.hpp"
#include "redis/transport/resolver.hpp"
#include "redis/transport/socket.hpp"
#include "redis/transport/stream.hpp"
#include "redis/transport/tls_context.hpp"
#include "redis/transport/waiting.hpp"

namespace overlimit::redis::transport {

/// What all attempts to connect to one endpoint share. Resolves hosts and reads files only when that is
/// needed. Thread-safe.
class Connector {
 public:
  explicit Connector(Endpoint endpoint);

  [[nodiscard]] const Endpoint& endpoint() const noexcept { return endpoint_; }
  [[nodiscard]] Resolver& resolver() noexcept { return resolver_; }

  /// A stream over a connected socket, with TLS if the endpoint has it (the stream does the TLS handshake).
  /// Throws StoreConfigError for a TLS file that cannot be used.
  [[nodiscard]] std::unique_ptr<Stream> stream_over(Socket socket);

 private:
  [[nodiscard]] std::shared_ptr<TlsContext> tls_context();

  const Endpoint endpoint_;
  Resolver resolver_;
  std::mutex mutex_;
  std::shared_ptr<TlsContext> tls_context_;  // guarded by mutex_; made at the first use
};

/// One attempt to connect, step by step: resolves the host and tries its addresses in turn, each with its
/// share of the remaining time. The deadline may move between steps. Not thread-safe.
class ConnectAttempt {
 public:
  explicit ConnectAttempt(std::shared_ptr<Connector> connector) : connector_(std::move(connector)) {}
  ConnectAttempt(const ConnectAttempt&) = delete;
  ConnectAttempt& operator=(const ConnectAttempt&) = delete;

  /// Goes on without waiting; returns a stream once it is connected. Throws StoreUnavailable (refused,
  /// unreachable, no such host), StoreTimeout, StoreConfigError (a unix path that is too long, a TLS file
  /// that cannot be used). Nothing was sent then, and there is no next step.
  [[nodiscard]] std::unique_ptr<Stream> step(const Deadline& deadline);

  /// Waits until the next step is possible, at most until the deadline.
  [[nodiscard]] Woken wait(const Deadline& deadline) const;

 private:
  enum class Progress { connected, pending, failed };

  [[nodiscard]] bool find_addresses(const Deadline& deadline);
  [[nodiscard]] Progress connect_to(const Address& address, const Deadline& deadline);
  [[nodiscard]] Progress go_on(const Deadline& deadline);
  [[nodiscard]] bool try_next(const Deadline& deadline);
  [[noreturn]] void fail(const Deadline& deadline) const;

  const std::shared_ptr<Connector> connector_;
  std::shared_ptr<const Lookup> lookup_;
  std::vector<Address> addresses_;
  std::size_t tried_ = 0;          // addresses; the last of them is being connected to
  std::optional<Deadline> until_;  // of this address; none: that of the step
  Socket socket_;
  bool is_full_ = false;  // the backlog of a unix socket is full, and there is no event for its end
  int error_ = 0;         // of the last address
};

/// Connects before the deadline. Throws as step() and check_interrupted() do.
[[nodiscard]] std::unique_ptr<Stream> connect(std::shared_ptr<Connector> connector, const Wait& wait);

}  // namespace overlimit::redis::transport
