// Connections under TLS, and what all of one endpoint have in common.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "overlimit/redis_location.hpp"
#include "redis/transport/openssl.hpp"
#include "redis/transport/socket.hpp"

namespace overlimit::redis::transport {

/// The trusted CAs, our own certificate, and the rules: TLS 1.2 or newer, no renegotiation, the host checked
/// against the alternative names of the certificate (never its subject). Thread-safe.
class TlsContext {
 public:
  /// `endpoint.tls` is set. Throws StoreConfigError naming the option that is wrong, std::bad_alloc.
  explicit TlsContext(Endpoint endpoint);
  [[nodiscard]] openssl::Context* get() const noexcept { return context_.get(); }
  [[nodiscard]] const Endpoint& endpoint() const noexcept { return endpoint_; }
  /// A connection failed in a way that renewed files may mend: the next one reads them again.
  void mark_stale() noexcept { stale_.store(true); }
  [[nodiscard]] bool is_stale() const noexcept { return stale_.load(); }
  /// Notes for how long the certificate of a server that has answered is valid.
  void note_certificate(openssl::Session* session) noexcept;
  /// In seconds, as of the newest connection; negative if certificates are not verified.
  [[nodiscard]] std::int64_t certificate_left() const noexcept { return certificate_left_.load(); }

 private:
  struct Free {
    void operator()(openssl::Context* context) const noexcept;
  };

  void set_rules();
  void set_trust(const TlsOptions& options);
  void trust_files(const TlsOptions& options);
  void trust_data(const std::string& pem);
  void expect_host();
  void set_certificate(const TlsOptions& options);

  const Endpoint endpoint_;
  const std::unique_ptr<openssl::Context, Free> context_;
  std::atomic<bool> stale_{false};
  std::atomic<std::int64_t> certificate_left_{-1};
};

/// Throws StoreConfigError, saying what to install, unless there can be TLS.
void require_tls();

/// A stream over a connected socket. Throws std::bad_alloc, StoreConfigError.
[[nodiscard]] std::unique_ptr<Stream> tls_stream(Socket socket, std::shared_ptr<TlsContext> context);

}  // namespace overlimit::redis::transport
