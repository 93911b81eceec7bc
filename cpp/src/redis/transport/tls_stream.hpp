// A connection under TLS.
#pragma once

#include <openssl/bio.h>
#include <openssl/ssl.h>
#include <poll.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <system_error>

#include "redis/transport/socket.hpp"
#include "redis/transport/stream.hpp"
#include "redis/transport/tls_context.hpp"

namespace overlimit::redis::transport {

/// A socket and how it failed or ended, which OpenSSL does not report.
struct BioSocket {
  Socket socket;
  std::error_code error;
  bool end = false;
};

/// A BIO that sends and receives as Socket does (OpenSSL's own would raise SIGPIPE). The caller owns it; it
/// must not outlive the socket. Throws std::bad_alloc.
[[nodiscard]] BIO* new_socket_bio(BioSocket& socket);

/// The TLS handshake is part of the first attempts to send and receive. No close_notify is sent: the peer
/// sees that the socket is closed, and a forked child must not send one. Redis frames its replies, so a
/// connection that is cut off is noticed anyway.
class TlsStream final : public Stream {
 public:
  /// `socket` is connected. Throws std::bad_alloc, StoreConfigError.
  TlsStream(Socket socket, std::shared_ptr<TlsContext> context);

  [[nodiscard]] int fd() const noexcept override { return socket_.socket.fd(); }
  [[nodiscard]] Transfer send(std::string_view bytes) override;
  [[nodiscard]] Transfer receive(char* buffer, std::size_t size) override;
  [[nodiscard]] short receiving_events() const noexcept override { return receiving_awaits_.load(); }
  [[nodiscard]] short sending_events() const noexcept override { return sending_awaits_.load(); }
  void shut_down() const noexcept override { socket_.socket.shut_down(); }

 private:
  struct Free {
    void operator()(SSL* session) const noexcept;
  };

  [[nodiscard]] Transfer no_bytes(int result, std::atomic<short>& awaited);
  void raise_if_misconfigured(std::error_code error);

  const std::shared_ptr<TlsContext> context_;
  std::mutex mutex_;  // guards all below: in TLS sending and receiving share one state
  BioSocket socket_;
  const std::unique_ptr<SSL, Free> session_;
  std::atomic<short> receiving_awaits_{POLLIN};  // what the last attempt needed: either may need both
  std::atomic<short> sending_awaits_{POLLOUT};
  bool has_received_ = false;  // until a reply has come the server may still refuse our certificate
};

}  // namespace overlimit::redis::transport
