// Opening connections to one endpoint.
#pragma once

#include <memory>
#include <mutex>

#include "overlimit/redis_endpoint.hpp"
#include "redis/transport/address.hpp"
#include "redis/transport/socket.hpp"
#include "redis/transport/stream.hpp"
#include "redis/transport/tls_context.hpp"

namespace overlimit::redis::transport {

/// What all attempts to connect to one endpoint share. Thread-safe. Nothing is connected, resolved or read
/// before it is asked for.
class Dialer {
 public:
  explicit Dialer(Endpoint endpoint);

  [[nodiscard]] const Endpoint& endpoint() const noexcept { return endpoint_; }
  [[nodiscard]] Resolver& resolver() noexcept { return resolver_; }

  /// A connected socket as a stream, under TLS where the endpoint asks for it (the handshake is the
  /// stream's). Throws StoreConfigError for a file for TLS that cannot be used.
  [[nodiscard]] std::unique_ptr<Stream> stream_over(Socket socket);

 private:
  [[nodiscard]] std::shared_ptr<TlsContext> tls_context();

  const Endpoint endpoint_;
  Resolver resolver_;
  std::mutex mutex_;
  std::shared_ptr<TlsContext> tls_context_;  // guarded by mutex_; made by the first who needs it
};

}  // namespace overlimit::redis::transport
