// Opening connections to one endpoint.
#pragma once

#include "overlimit/redis_endpoint.hpp"
#include "redis/transport/address.hpp"
#include "redis/transport/socket.hpp"
#include "redis/transport/wait.hpp"

namespace overlimit::redis::transport {

/// Thread-safe. Nothing is connected or resolved until dial().
class Dialer {
 public:
  explicit Dialer(Endpoint endpoint);

  [[nodiscard]] const Endpoint& endpoint() const noexcept { return endpoint_; }

  /// A connected socket. The addresses of a host are tried in turn, each with its share of the time left.
  /// Throws StoreUnavailable (refused, unreachable, no such host), StoreTimeout, StoreConfigError (a unix
  /// path that is none), WaitInterrupted; nothing was sent then.
  [[nodiscard]] Socket dial(const Deadline& deadline, const Interrupted& interrupted);

 private:
  const Endpoint endpoint_;
  Resolver resolver_;
};

}  // namespace overlimit::redis::transport
