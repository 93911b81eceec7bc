#include "redis/transport/tls.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>

#include <new>

namespace overlimit::redis::transport {
namespace {

class TlsCategory final : public std::error_category {
 public:
  [[nodiscard]] const char* name() const noexcept override { return "tls"; }
  [[nodiscard]] std::string message(int value) const override {
    const auto code = static_cast<unsigned long>(static_cast<unsigned int>(value));
    if (ERR_GET_LIB(code) == ERR_LIB_SYS) return std::system_category().message(ERR_GET_REASON(code));
    const OutsideForks outside;
    const char* reason = ERR_reason_error_string(code);
    return reason != nullptr ? reason : "TLS error " + std::to_string(code);
  }
};

/// Its messages are fixed texts, with nothing from a file or a peer. Never destroyed: errors may be reported
/// while the process ends.
const std::error_category& tls_category = *new TlsCategory;

constexpr std::string_view kNoTls =
    "the server does not use TLS on this port: give its TLS port (tls-port), or write redis:// to connect "
    "without TLS";
constexpr std::string_view kOurCertificate =
    "the server asks for another certificate of ours: check ssl_certfile and ssl_keyfile";
constexpr std::string_view kNothingInCommon =
    "the server wants a client certificate (ssl_certfile and ssl_keyfile) or has no cipher in common with us";
constexpr std::string_view kTooOld =
    "the server's TLS is too old or too new: TLS 1.2 and 1.3 are spoken here";
constexpr std::string_view kItsCertificate = "check the server's certificate and key";

struct Row {
  int reason;
  std::string_view advice;
};

constexpr int alert(int description) { return SSL_AD_REASON_OFFSET + description; }

constexpr Row kTable[] = {
    {SSL_R_WRONG_VERSION_NUMBER, kNoTls},
    {SSL_R_HTTP_REQUEST, kNoTls},
    {SSL_R_PACKET_LENGTH_TOO_LONG, kNoTls},
    {SSL_R_UNSUPPORTED_PROTOCOL, kTooOld},
    {SSL_R_CERTIFICATE_VERIFY_FAILED, kItsCertificate},
    {SSL_R_EE_KEY_TOO_SMALL, kItsCertificate},
    {SSL_R_CA_KEY_TOO_SMALL, kItsCertificate},
    {SSL_R_DH_KEY_TOO_SMALL, kItsCertificate},
    {SSL_R_WRONG_CERTIFICATE_TYPE, kItsCertificate},
    {alert(SSL_AD_HANDSHAKE_FAILURE), kNothingInCommon},
    {alert(SSL_AD_INSUFFICIENT_SECURITY), kNothingInCommon},
    {alert(SSL_AD_PROTOCOL_VERSION), kTooOld},
    {alert(SSL_AD_UNRECOGNIZED_NAME), "the server has no certificate for this host name"},
    {alert(SSL_AD_CERTIFICATE_REQUIRED),
     "the server wants a client certificate: give ssl_certfile and ssl_keyfile"},
    {alert(SSL_AD_BAD_CERTIFICATE), kOurCertificate},
    {alert(SSL_AD_UNSUPPORTED_CERTIFICATE), kOurCertificate},
    {alert(SSL_AD_CERTIFICATE_REVOKED), kOurCertificate},
    {alert(SSL_AD_CERTIFICATE_EXPIRED), kOurCertificate},
    {alert(SSL_AD_CERTIFICATE_UNKNOWN), kOurCertificate},
    {alert(SSL_AD_UNKNOWN_CA), kOurCertificate},
    {alert(SSL_AD_ACCESS_DENIED), kOurCertificate},
    {alert(SSL_AD_DECRYPT_ERROR), kOurCertificate},
};

int reason_of(std::error_code error) {
  const auto code = static_cast<unsigned long>(static_cast<unsigned int>(error.value()));
  return error.category() == tls_category && ERR_GET_LIB(code) == ERR_LIB_SSL ? ERR_GET_REASON(code) : 0;
}

std::string_view advice_on_certificate(long verify_result) {
  switch (verify_result) {
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
      return "use one of the names or addresses that the certificate is for (its subject alternative names), "
             "or ssl_check_hostname=False to accept any";
    case X509_V_ERR_CERT_HAS_EXPIRED:
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return "renew the certificate, or set this machine's clock";
    default:
      return "give the CA that signed it as ssl_ca_certs, or ssl_cert_reqs=\"none\" to trust anyone";
  }
}

/// Takes the first error of this thread's queue and drops the others, which follow from it. Others such as
/// Python's ssl may share the queue, so it is left empty.
std::error_code take_tls_error() noexcept {
  const unsigned long code = ERR_get_error();
  ERR_clear_error();
  return {static_cast<int>(code), tls_category};
}

/// Whether the peer reported the error, not this side.
bool is_alert(std::error_code error) noexcept { return reason_of(error) >= SSL_AD_REASON_OFFSET; }

/// What to do about an error in the configuration of one side; empty for any other error.
std::string_view advice_on(std::error_code error) noexcept {
  const int reason = reason_of(error);
  const auto* row = std::ranges::find(kTable, reason, &Row::reason);
  return row == std::ranges::end(kTable) ? std::string_view() : row->advice;
}

/// The server's certificate is not trusted, for the reason of SSL_get_verify_result().
[[noreturn]] void raise_untrusted(long verify_result, const Endpoint& endpoint) {
  throw StoreConfigError("redis at " + endpoint.describe() + " has a certificate that is not trusted: " +
                         X509_verify_cert_error_string(verify_result) + "; " +
                         std::string(advice_on_certificate(verify_result)));
}

/// TLS failed with an error for which advice_on() is not empty.
[[noreturn]] void raise_misconfigured(std::error_code error, const Endpoint& endpoint) {
  throw StoreConfigError("no TLS with redis at " + endpoint.describe() + ": " + error.message() + "; " +
                         std::string(advice_on(error)));
}

/// The option `what` cannot be used, for the first error of the queue.
[[noreturn]] void raise_unusable(const std::string& what, const Endpoint& endpoint) {
  throw StoreConfigError("cannot use " + what + " for redis at " + endpoint.describe() + ": " +
                         take_tls_error().message());
}

/// Whether a host is an address instead of a name.
bool is_address(const std::string& host) noexcept {
  in6_addr parsed{};
  return ::inet_pton(AF_INET, host.c_str(), &parsed) == 1 ||
         ::inet_pton(AF_INET6, host.c_str(), &parsed) == 1;
}

std::string shown(const char* option, const std::string& file) {
  return std::string(option) + " '" + file + "'";
}

/// Always set, since the default callback of OpenSSL asks at the terminal.
int give_password(char* buffer, int size, int /*writing*/, void* password) {
  const std::string& text = *static_cast<const std::string*>(password);
  const std::size_t count = std::min(text.size(), static_cast<std::size_t>(size));
  text.copy(buffer, count);
  return count == 0 ? -1 : static_cast<int>(count);
}

struct FreeBio {
  void operator()(BIO* bio) const noexcept { BIO_free_all(bio); }
};
struct FreeCertificate {
  void operator()(X509* certificate) const noexcept { X509_free(certificate); }
};
using Certificate = std::unique_ptr<X509, FreeCertificate>;

Certificate next_certificate(BIO* pem) {
  return Certificate(PEM_read_bio_X509(pem, nullptr, nullptr, nullptr));
}

SSL_CTX* new_context() {
  const OutsideForks outside;
  return SSL_CTX_new(TLS_client_method());
}

/// A socket and how it failed or ended, which OpenSSL does not report.
struct BioSocket {
  Socket socket;
  std::error_code error;
  bool end = false;
};

BioSocket& bio_socket_of(BIO* bio) { return *static_cast<BioSocket*>(BIO_get_data(bio)); }

int write_some(BIO* bio, const char* bytes, int size) {
  BioSocket& socket = bio_socket_of(bio);
  BIO_clear_retry_flags(bio);
  const Transfer transfer = socket.socket.send(std::string_view(bytes, static_cast<std::size_t>(size)));
  if (transfer.count > 0) return static_cast<int>(transfer.count);
  socket.error = transfer.error;
  if (!transfer.error) BIO_set_retry_write(bio);
  return -1;
}

int read_some(BIO* bio, char* buffer, int size) {
  BioSocket& socket = bio_socket_of(bio);
  BIO_clear_retry_flags(bio);
  if (size <= 0) return 0;
  const Transfer transfer = socket.socket.receive(buffer, static_cast<std::size_t>(size));
  if (transfer.count > 0) return static_cast<int>(transfer.count);
  socket.error = transfer.error;
  socket.end = transfer.end;
  if (transfer.end) return 0;
  if (!transfer.error) BIO_set_retry_read(bio);
  return -1;
}

long control(BIO* bio, int command, long /*number*/, void* /*pointer*/) {
  if (command == BIO_CTRL_FLUSH) return 1;
  return command == BIO_CTRL_EOF && bio_socket_of(bio).end ? 1 : 0;
}

/// Never freed: connections may be in use until the process ends.
BIO_METHOD* new_method() {
  BIO_METHOD* method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "overlimit socket");
  if (method == nullptr) throw std::bad_alloc();
  BIO_meth_set_write(method, write_some);
  BIO_meth_set_read(method, read_some);
  BIO_meth_set_ctrl(method, control);
  return method;
}

/// A BIO that sends and receives as Socket does (OpenSSL's own would raise SIGPIPE). The caller owns it; it
/// must not outlive the socket. Throws std::bad_alloc.
BIO* new_socket_bio(BioSocket& socket) {
  static BIO_METHOD* const method = new_method();
  BIO* bio = BIO_new(method);
  if (bio == nullptr) throw std::bad_alloc();
  BIO_set_data(bio, &socket);
  BIO_set_init(bio, 1);
  return bio;
}

SSL* new_session(const TlsContext& context) {
  const OutsideForks outside;
  return SSL_new(context.get());
}

/// No close_notify is sent: the peer sees that the socket is closed, and a forked child must not send one.
/// Redis frames its replies, so a connection that is cut off is noticed anyway.
class TlsStream final : public Stream {
 public:
  /// `socket` is connected. Throws std::bad_alloc, StoreConfigError.
  TlsStream(Socket socket, std::shared_ptr<TlsContext> context)
      : context_(std::move(context)),
        socket_{std::move(socket), {}, false},
        session_(new_session(*context_)) {
    const OutsideForks outside;
    if (!session_) throw std::bad_alloc();
    BIO* bio = new_socket_bio(socket_);
    SSL_set_bio(session_.get(), bio, bio);
    SSL_set_connect_state(session_.get());
    const std::string& host = context_->endpoint().host;
    if (!is_address(host) && SSL_set_tlsext_host_name(session_.get(), host.c_str()) != 1) {
      raise_unusable("the host name", context_->endpoint());
    }
  }

  [[nodiscard]] int fd() const noexcept override { return socket_.socket.fd(); }
  [[nodiscard]] Transfer send(std::string_view bytes) override {
    const OutsideForks outside;
    const std::lock_guard lock(mutex_);
    ERR_clear_error();
    Transfer transfer;
    const int result = SSL_write_ex(session_.get(), bytes.data(), bytes.size(), &transfer.count);
    if (result != 1) return no_bytes(result, sending_awaits_);
    sending_awaits_ = POLLOUT;
    return transfer;
  }

  [[nodiscard]] Transfer receive(char* buffer, std::size_t size) override {
    const OutsideForks outside;
    const std::lock_guard lock(mutex_);
    ERR_clear_error();
    Transfer transfer;
    const int result = SSL_read_ex(session_.get(), buffer, size, &transfer.count);
    if (result != 1) return no_bytes(result, receiving_awaits_);
    receiving_awaits_ = POLLIN;
    has_received_ = true;
    return transfer;
  }

  [[nodiscard]] short receiving_events() const noexcept override { return receiving_awaits_.load(); }
  [[nodiscard]] short sending_events() const noexcept override { return sending_awaits_.load(); }
  void shut_down() const noexcept override { socket_.socket.shut_down(); }

 private:
  struct Free {
    void operator()(SSL* session) const noexcept {
      const OutsideForks outside;
      SSL_free(session);
    }
  };

  [[nodiscard]] Transfer no_bytes(int result, std::atomic<short>& awaited) {
    const int kind = SSL_get_error(session_.get(), result);
    if (kind == SSL_ERROR_WANT_READ || kind == SSL_ERROR_WANT_WRITE) {
      awaited = kind == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT;
      return {};
    }
    const std::error_code error = take_tls_error();
    raise_if_misconfigured(error);
    if (kind == SSL_ERROR_ZERO_RETURN || socket_.end) return {0, {}, true};
    if (socket_.error) return {0, socket_.error, false};
    return {0, error ? error : std::make_error_code(std::errc::io_error), false};
  }

  void raise_if_misconfigured(std::error_code error) {
    if (has_received_ || advice_on(error).empty()) return;
    const bool by_us = !SSL_is_init_finished(session_.get());
    if (!by_us && !is_alert(error)) return;
    context_->mark_stale();
    const long verified = SSL_get_verify_result(session_.get());
    if (by_us && !is_alert(error) && context_->endpoint().tls->verify && verified != X509_V_OK) {
      raise_untrusted(verified, context_->endpoint());
    }
    raise_misconfigured(error, context_->endpoint());
  }

  const std::shared_ptr<TlsContext> context_;
  std::mutex mutex_;  // guards all below: in TLS sending and receiving share one state
  BioSocket socket_;
  const std::unique_ptr<SSL, Free> session_;
  std::atomic<short> receiving_awaits_{POLLIN};  // what the last attempt needed: either may need both
  std::atomic<short> sending_awaits_{POLLOUT};
  bool has_received_ = false;  // until a reply has come the server may still refuse our certificate
};

}  // namespace

void TlsContext::Free::operator()(SSL_CTX* context) const noexcept {
  const OutsideForks outside;
  SSL_CTX_free(context);
}

TlsContext::TlsContext(Endpoint endpoint) : endpoint_(std::move(endpoint)), context_(new_context()) {
  const OutsideForks outside;
  if (!context_) throw std::bad_alloc();
  ERR_clear_error();
  set_rules();
  set_trust(*endpoint_.tls);
  set_certificate(*endpoint_.tls);
  ERR_clear_error();
}

void TlsContext::set_rules() {
  SSL_CTX_set_min_proto_version(get(), TLS1_2_VERSION);
  SSL_CTX_set_options(get(), SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_session_cache_mode(get(), SSL_SESS_CACHE_OFF);
  // The bytes to send may be at another place at the next attempt.
  SSL_CTX_set_mode(get(), SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
}

void TlsContext::set_trust(const TlsOptions& options) {
  SSL_CTX_set_verify(get(), options.verify ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, nullptr);
  if (!options.verify) return;
  if (options.ca_file.empty() && options.ca_directory.empty() && options.ca_data.empty()) {
    SSL_CTX_set_default_verify_paths(get());
  }
  trust_files(options);
  if (!options.ca_data.empty()) trust_data(options.ca_data);
  if (options.check_hostname) expect_host();
}

void TlsContext::trust_files(const TlsOptions& options) {
  const auto load = [this](const char* option, const std::string& path, const char* file,
                           const char* directory) {
    if (!path.empty() && SSL_CTX_load_verify_locations(get(), file, directory) != 1) {
      raise_unusable(shown(option, path), endpoint_);
    }
  };
  load("ssl_ca_certs", options.ca_file, options.ca_file.c_str(), nullptr);
  load("ssl_ca_path", options.ca_directory, nullptr, options.ca_directory.c_str());
}

void TlsContext::trust_data(const std::string& pem) {
  const std::unique_ptr<BIO, FreeBio> text(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  if (!text) throw std::bad_alloc();
  X509_STORE* store = SSL_CTX_get_cert_store(get());
  Certificate certificate = next_certificate(text.get());
  if (!certificate) raise_unusable("ssl_ca_data", endpoint_);
  for (; certificate; certificate = next_certificate(text.get())) {
    if (X509_STORE_add_cert(store, certificate.get()) != 1) raise_unusable("ssl_ca_data", endpoint_);
  }
}

void TlsContext::expect_host() {
  X509_VERIFY_PARAM* expected = SSL_CTX_get0_param(get());
  X509_VERIFY_PARAM_set_hostflags(expected,
                                  X509_CHECK_FLAG_NEVER_CHECK_SUBJECT | X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
  const std::string& host = endpoint_.host;
  const int set = is_address(host) ? X509_VERIFY_PARAM_set1_ip_asc(expected, host.c_str())
                                   : X509_VERIFY_PARAM_set1_host(expected, host.data(), host.size());
  if (set != 1) raise_unusable("the host name", endpoint_);
}

void TlsContext::set_certificate(const TlsOptions& options) {
  if (options.certificate_file.empty()) return;
  const std::string& key = options.key_file.empty() ? options.certificate_file : options.key_file;
  SSL_CTX_set_default_passwd_cb(get(), give_password);
  SSL_CTX_set_default_passwd_cb_userdata(get(), const_cast<std::string*>(&options.key_password));
  if (SSL_CTX_use_certificate_chain_file(get(), options.certificate_file.c_str()) != 1) {
    raise_unusable(shown("ssl_certfile", options.certificate_file), endpoint_);
  }
  if (SSL_CTX_use_PrivateKey_file(get(), key.c_str(), SSL_FILETYPE_PEM) != 1) {
    raise_unusable(shown("ssl_keyfile", key) + " (with its ssl_password, if it is encrypted)", endpoint_);
  }
}

std::unique_ptr<Stream> tls_stream(Socket socket, std::shared_ptr<TlsContext> context) {
  return std::make_unique<TlsStream>(std::move(socket), std::move(context));
}

}  // namespace overlimit::redis::transport
