#include "redis/transport/dialer.hpp"

#include <utility>

#include "redis/transport/plain_stream.hpp"
#include "redis/transport/tls_stream.hpp"

namespace overlimit::redis::transport {

Dialer::Dialer(Endpoint endpoint)
    : endpoint_(std::move(endpoint)), resolver_(endpoint_.host, endpoint_.port) {}

std::unique_ptr<Stream> Dialer::stream_over(Socket socket) {
  const bool is_tls = endpoint_.tls && endpoint_.unix_path.empty();
  if (!is_tls) return std::make_unique<PlainStream>(std::move(socket));
  return std::make_unique<TlsStream>(std::move(socket), tls_context());
}

/// Files that were replaced, as certificates are, are read again once a connection has failed.
std::shared_ptr<TlsContext> Dialer::tls_context() {
  const std::lock_guard lock(mutex_);
  if (!tls_context_ || tls_context_->is_doubted()) tls_context_ = std::make_shared<TlsContext>(endpoint_);
  return tls_context_;
}

}  // namespace overlimit::redis::transport
