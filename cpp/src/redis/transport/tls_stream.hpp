// A connection under TLS.
#pragma once

#include <openssl/ssl.h>
#include <poll.h>

#include <atomic>
#include <memory>
#include <mutex>

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
  [[nodiscard]] short receiving_events() const noexcept override { return receiving_awaits_.load(); }
  [[nodiscard]] short sending_events() const noexcept override { return sending_awaits_.load(); }
  void shut_down() const noexcept override { wire_.socket.shut_down(); }

 private:
  struct Free {
    void operator()(SSL* session) const noexcept;
  };

  [[nodiscard]] Transfer no_bytes(int result, std::atomic<short>& awaited);
  void raise_if_misconfigured(std::error_code error);

  const std::shared_ptr<TlsContext> context_;
  std::mutex mutex_;  // of all below: sending and receiving have one state in TLS
  Wire wire_;
  const std::unique_ptr<SSL, Free> session_;
  std::atomic<short> receiving_awaits_{POLLIN};  // what the last attempt stopped for: either may need both
  std::atomic<short> sending_awaits_{POLLOUT};
  bool heard_ = false;  // something of Redis came; until then the server may still refuse our certificate
};

}  // namespace overlimit::redis::transport
