// A connection under TLS.
#pragma once

#include <openssl/ssl.h>
#include <poll.h>

#include <memory>

#include "redis/transport/socket_bio.hpp"
#include "redis/transport/stream.hpp"
#include "redis/transport/tls_context.hpp"

namespace overlimit::redis::transport {

/// The handshake is part of the first attempts to send and receive. The peer is never told of the end
/// (close_notify): it reads it off the socket, and a forked child must not tell it. Redis frames what it
/// sends, so nothing is lost by a cut that nobody announced.
class TlsStream final : public Stream {
 public:
  /// `socket` is connected. Throws std::bad_alloc, StoreConfigError.
  TlsStream(Socket socket, std::shared_ptr<TlsContext> context);

  [[nodiscard]] int fd() const noexcept override { return wire_.socket.fd(); }
  [[nodiscard]] Transfer send(std::string_view bytes) override;
  [[nodiscard]] Transfer receive(char* buffer, std::size_t size) override;
  [[nodiscard]] short events(bool to_send) const noexcept override;

 private:
  struct Free {
    void operator()(SSL* session) const noexcept;
  };

  [[nodiscard]] Transfer no_bytes(int result, short& awaited);
  void raise_if_misconfigured(std::error_code error);

  const std::shared_ptr<TlsContext> context_;
  Wire wire_;
  const std::unique_ptr<SSL, Free> session_;
  short receiving_awaits_ = POLLIN;  // what the last attempt stopped for: either may need both directions
  short sending_awaits_ = POLLOUT;
  bool heard_ = false;  // something of Redis came; until then the server may still refuse our certificate
};

}  // namespace overlimit::redis::transport
