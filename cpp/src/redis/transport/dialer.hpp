// Opening connections to one endpoint.
#pragma once

#include <memory>
#include <mutex>

#include "overlimit/redis_endpoint.hpp"
#include "redis/transport/address.hpp"
#include "redis/transport/socket.hpp"
#include "redis/transport/stream.hpp"
#include "redis/transport/tls_context.hpp"
#include "redis/transport/wait.hpp"

namespace overlimit::redis::transport {

/// Thread-safe. Nothing is connected or resolved until dial().
class Dialer {
 public:
  explicit Dialer(Endpoint endpoint);

  [[nodiscard]] const Endpoint& endpoint() const noexcept { return endpoint_; }

  /// A connected stream, under TLS where the endpoint asks for it (the handshake is the stream's). The
  /// addresses of a host are tried in turn, each with its share of the time left. Throws StoreUnavailable
  /// (refused, unreachable, no such host), StoreTimeout, StoreConfigError (a unix path that is none, a file
  /// for TLS that cannot be used), WaitInterrupted; nothing was sent then.
  [[nodiscard]] std::unique_ptr<Stream> dial(const Deadline& deadline, const Interrupted& interrupted);

 private:
  [[nodiscard]] bool is_tls() const noexcept { return endpoint_.tls && endpoint_.unix_path.empty(); }
  [[nodiscard]] Socket connect(const Deadline& deadline, const Interrupted& interrupted);
  [[nodiscard]] std::shared_ptr<TlsContext> tls_context();

  const Endpoint endpoint_;
  Resolver resolver_;
  std::mutex mutex_;
  std::shared_ptr<TlsContext> tls_context_;  // guarded by mutex_; made by the first who needs it
};

}  // namespace overlimit::redis::transport
