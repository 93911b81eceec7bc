#include "redis/transport/tls.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <mutex>

#include <new>

namespace overlimit::redis::transport {

using namespace openssl;  // NOLINT(google-build-using-namespace): its functions and values are what this file
                          // is about

namespace {

class TlsCategory final : public std::error_category {
 public:
  [[nodiscard]] const char* name() const noexcept override { return "tls"; }
  [[nodiscard]] std::string message(int value) const override {
    const auto code = static_cast<unsigned long>(static_cast<unsigned int>(value));
    if (library().observe_attempt(code) == kErrorLibSys)
      return std::system_category().message(library().reason_of(code));
    const OutsideForks outside;
    const char* reason = library().ERR_reason_error_string(code);
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

constexpr Row kTable[] = {
    {kReasonWrongVersionNumber, kNoTls},
    {kReasonHttpRequest, kNoTls},
    {kReasonPacketLengthTooLong, kNoTls},
    {kReasonUnsupportedProtocol, kTooOld},
    {kReasonCertificateVerifyFailed, kItsCertificate},
    {kReasonEeKeyTooSmall, kItsCertificate},
    {kReasonCaKeyTooSmall, kItsCertificate},
    {kReasonDhKeyTooSmall, kItsCertificate},
    {kReasonWrongCertificateType, kItsCertificate},
    {kAlertHandshakeFailure, kNothingInCommon},
    {kAlertInsufficientSecurity, kNothingInCommon},
    {kAlertProtocolVersion, kTooOld},
    {kAlertUnrecognizedName, "the server has no certificate for this host name"},
    {kAlertCertificateRequired, "the server wants a client certificate: give ssl_certfile and ssl_keyfile"},
    {kAlertBadCertificate, kOurCertificate},
    {kAlertUnsupportedCertificate, kOurCertificate},
    {kAlertCertificateRevoked, kOurCertificate},
    {kAlertCertificateExpired, kOurCertificate},
    {kAlertCertificateUnknown, kOurCertificate},
    {kAlertUnknownCa, kOurCertificate},
    {kAlertAccessDenied, kOurCertificate},
    {kAlertDecryptError, kOurCertificate},
};

int reason_of(std::error_code error) {
  const auto code = static_cast<unsigned long>(static_cast<unsigned int>(error.value()));
  return error.category() == tls_category && library().observe_attempt(code) == kErrorLibSsl
             ? library().reason_of(code)
             : 0;
}

std::string_view advice_on_certificate(long verify_result) {
  switch (verify_result) {
    case kVerifyErrHostnameMismatch:
    case kVerifyErrIpAddressMismatch:
      return "use one of the names or addresses that the certificate is for (its subject alternative names), "
             "or ssl_check_hostname=False to accept any";
    case kVerifyErrCertHasExpired:
    case kVerifyErrCertNotYetValid:
      return "renew the certificate, or set this machine's clock";
    case kVerifyErrEeKeyTooSmall:
    case kVerifyErrCaKeyTooSmall:
    case kVerifyErrCaMdTooWeak:
      return "give the server one that is as strong as this machine's OpenSSL is configured to ask for";
    default:
      return "give the CA that signed it as ssl_ca_certs, or ssl_cert_reqs=\"none\" to trust anyone";
  }
}

/// Takes the first error of this thread's queue and drops the others, which follow from it. Others such as
/// Python's ssl may share the queue, so it is left empty.
std::error_code take_tls_error() noexcept {
  const unsigned long code = library().ERR_get_error();
  library().ERR_clear_error();
  return {static_cast<int>(code), tls_category};
}

/// Whether the peer reported the error, not this side.
bool is_alert(std::error_code error) noexcept { return reason_of(error) >= kReasonOfAlerts; }

/// What to do about an error in the configuration of one side; empty for any other error.
std::string_view advice_on(std::error_code error) noexcept {
  const int reason = reason_of(error);
  const auto* row = std::ranges::find(kTable, reason, &Row::reason);
  return row == std::ranges::end(kTable) ? std::string_view() : row->advice;
}

/// The server's certificate is not trusted, for the reason of SSL_get_verify_result().
[[noreturn]] void raise_untrusted(long verify_result, const Endpoint& endpoint) {
  throw StoreConfigError("redis at " + endpoint.describe() + " has a certificate that is not trusted: " +
                         library().X509_verify_cert_error_string(verify_result) + "; " +
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
  void operator()(Bio* bio) const noexcept { library().BIO_free_all(bio); }
};
struct FreeCertificate {
  void operator()(Certificate* certificate) const noexcept { library().X509_free(certificate); }
};
using OwnCertificate = std::unique_ptr<Certificate, FreeCertificate>;

OwnCertificate next_certificate(Bio* pem) {
  return OwnCertificate(library().PEM_read_bio_X509(pem, nullptr, nullptr, nullptr));
}

Context* new_context() {
  const OutsideForks outside;
  library().ERR_clear_error();
  return library().SSL_CTX_new(library().TLS_client_method());
}

/// A socket and how it failed or ended, which OpenSSL does not report.
struct BioSocket {
  Socket socket;
  std::error_code error;
  bool end = false;
};

BioSocket& bio_socket_of(Bio* bio) { return *static_cast<BioSocket*>(library().BIO_get_data(bio)); }

int write_some(Bio* bio, const char* bytes, int size) {
  BioSocket& socket = bio_socket_of(bio);
  library().BIO_clear_flags(bio, kBioFlagsRetry);
  const Transfer transfer = socket.socket.send(std::string_view(bytes, static_cast<std::size_t>(size)));
  if (transfer.count > 0) return static_cast<int>(transfer.count);
  socket.error = transfer.error;
  if (!transfer.error) library().BIO_set_flags(bio, kBioFlagsWrite | kBioFlagsShouldRetry);
  return -1;
}

int read_some(Bio* bio, char* buffer, int size) {
  BioSocket& socket = bio_socket_of(bio);
  library().BIO_clear_flags(bio, kBioFlagsRetry);
  if (size <= 0) return 0;
  const Transfer transfer = socket.socket.receive(buffer, static_cast<std::size_t>(size));
  if (transfer.count > 0) return static_cast<int>(transfer.count);
  socket.error = transfer.error;
  socket.end = transfer.end;
  if (transfer.end) return 0;
  if (!transfer.error) library().BIO_set_flags(bio, kBioFlagsRead | kBioFlagsShouldRetry);
  return -1;
}

long control(Bio* bio, int command, long /*number*/, void* /*pointer*/) {
  if (command == kBioCtrlFlush) return 1;
  return command == kBioCtrlEof && bio_socket_of(bio).end ? 1 : 0;
}

/// Never freed: connections may be in use until the process ends.
BioMethod* new_method() {
  BioMethod* method =
      library().BIO_meth_new(library().BIO_get_new_index() | kBioTypeSourceSink, "overlimit socket");
  if (method == nullptr) throw std::bad_alloc();
  library().BIO_meth_set_write(method, write_some);
  library().BIO_meth_set_read(method, read_some);
  library().BIO_meth_set_ctrl(method, control);
  return method;
}

/// A BIO that sends and receives as Socket does (OpenSSL's own would raise SIGPIPE). The caller owns it; it
/// must not outlive the socket. Throws std::bad_alloc.
Bio* new_socket_bio(BioSocket& socket) {
  static BioMethod* const method = new_method();
  Bio* bio = library().BIO_new(method);
  if (bio == nullptr) throw std::bad_alloc();
  library().BIO_set_data(bio, &socket);
  library().BIO_set_init(bio, 1);
  return bio;
}

Session* new_session(const TlsContext& context) {
  const OutsideForks outside;
  return library().SSL_new(context.get());
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
    Bio* bio = new_socket_bio(socket_);
    library().SSL_set_bio(session_.get(), bio, bio);
    library().SSL_set_connect_state(session_.get());
    const std::string& host = context_->endpoint().host;
    if (!is_address(host) && !library().set_host_name(session_.get(), host.c_str())) {
      raise_unusable("the host name", context_->endpoint());
    }
  }

  [[nodiscard]] int fd() const noexcept override { return socket_.socket.fd(); }
  [[nodiscard]] Transfer send(std::string_view bytes) override {
    const OutsideForks outside;
    const std::lock_guard lock(mutex_);
    library().ERR_clear_error();
    Transfer transfer;
    const int result = library().SSL_write_ex(session_.get(), bytes.data(), bytes.size(), &transfer.count);
    if (result != 1) return no_bytes(result, sending_awaits_);
    sending_awaits_ = POLLOUT;
    return transfer;
  }

  [[nodiscard]] Transfer receive(char* buffer, std::size_t size) override {
    const OutsideForks outside;
    const std::lock_guard lock(mutex_);
    library().ERR_clear_error();
    Transfer transfer;
    const int result = library().SSL_read_ex(session_.get(), buffer, size, &transfer.count);
    if (result != 1) return no_bytes(result, receiving_awaits_);
    receiving_awaits_ = POLLIN;
    if (!std::exchange(has_received_, true)) context_->note_certificate(session_.get());
    return transfer;
  }

  [[nodiscard]] short receiving_events() const noexcept override { return receiving_awaits_.load(); }
  [[nodiscard]] short sending_events() const noexcept override { return sending_awaits_.load(); }
  void shut_down() const noexcept override { socket_.socket.shut_down(); }

 private:
  struct Free {
    void operator()(Session* session) const noexcept {
      const OutsideForks outside;
      library().SSL_free(session);
    }
  };

  [[nodiscard]] Transfer no_bytes(int result, std::atomic<short>& awaited) {
    const int kind = library().SSL_get_error(session_.get(), result);
    if (kind == kErrorWantRead || kind == kErrorWantWrite) {
      awaited = kind == kErrorWantRead ? POLLIN : POLLOUT;
      return {};
    }
    if (refusal_) std::rethrow_exception(refusal_);
    const std::error_code error = take_tls_error();
    try {
      raise_if_misconfigured(error);
    } catch (...) {
      refusal_ = std::current_exception();
      throw;
    }
    if (kind == kErrorZeroReturn || socket_.end) return {0, {}, true};
    if (socket_.error) return {0, socket_.error, false};
    return {0, error ? error : std::make_error_code(std::errc::io_error), false};
  }

  void raise_if_misconfigured(std::error_code error) {
    if (has_received_ || advice_on(error).empty()) return;
    const bool by_us = !library().SSL_is_init_finished(session_.get());
    if (!by_us && !is_alert(error)) return;
    context_->mark_stale();
    const long verified = library().SSL_get_verify_result(session_.get());
    if (by_us && !is_alert(error) && context_->endpoint().tls->verify && verified != kVerifyOk) {
      raise_untrusted(verified, context_->endpoint());
    }
    raise_misconfigured(error, context_->endpoint());
  }

  const std::shared_ptr<TlsContext> context_;
  std::mutex mutex_;  // guards all below: in TLS sending and receiving share one state
  BioSocket socket_;
  const std::unique_ptr<Session, Free> session_;
  std::atomic<short> receiving_awaits_{POLLIN};  // what the last attempt needed: either may need both
  std::atomic<short> sending_awaits_{POLLOUT};
  std::exception_ptr refusal_;  // OpenSSL says why a session has failed to the first who asks only
  bool has_received_ = false;   // until a reply has come the server may still refuse our certificate
};

}  // namespace

void TlsContext::Free::operator()(Context* context) const noexcept {
  const OutsideForks outside;
  library().SSL_CTX_free(context);
}

TlsContext::TlsContext(Endpoint endpoint) : endpoint_(std::move(endpoint)), context_(new_context()) {
  const OutsideForks outside;
  if (!context_) raise_unusable("TLS as this machine's OpenSSL is configured", endpoint_);
  library().ERR_clear_error();
  set_rules();
  set_trust(*endpoint_.tls);
  set_certificate(*endpoint_.tls);
  library().ERR_clear_error();
}

void TlsContext::set_rules() {
  library().raise_min_proto_version(get(), kTls12);
  library().SSL_CTX_set_options(get(), kOpNoRenegotiation | kOpNoCompression);
  library().set_session_cache_mode(get(), kSessionCacheOff);
  // The bytes to send may be at another place at the next attempt.
  library().set_mode(get(), kModeEnablePartialWrite | kModeAcceptMovingWriteBuffer);
}

void TlsContext::set_trust(const TlsOptions& options) {
  library().SSL_CTX_set_verify(get(), options.verify ? kVerifyPeer : kVerifyNone, nullptr);
  if (!options.verify) return;
  if (options.ca_file.empty() && options.ca_directory.empty() && options.ca_data.empty()) {
    library().SSL_CTX_set_default_verify_paths(get());
  }
  trust_files(options);
  if (!options.ca_data.empty()) trust_data(options.ca_data);
  if (options.check_hostname) expect_host();
}

void TlsContext::trust_files(const TlsOptions& options) {
  const auto load = [this](const char* option, const std::string& path, const char* file,
                           const char* directory) {
    if (!path.empty() && library().SSL_CTX_load_verify_locations(get(), file, directory) != 1) {
      raise_unusable(shown(option, path), endpoint_);
    }
  };
  load("ssl_ca_certs", options.ca_file, options.ca_file.c_str(), nullptr);
  load("ssl_ca_path", options.ca_directory, nullptr, options.ca_directory.c_str());
}

void TlsContext::trust_data(const std::string& pem) {
  const std::unique_ptr<Bio, FreeBio> text(
      library().BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  if (!text) throw std::bad_alloc();
  CertificateStore* store = library().SSL_CTX_get_cert_store(get());
  OwnCertificate certificate = next_certificate(text.get());
  if (!certificate) raise_unusable("ssl_ca_data", endpoint_);
  for (; certificate; certificate = next_certificate(text.get())) {
    if (library().X509_STORE_add_cert(store, certificate.get()) != 1)
      raise_unusable("ssl_ca_data", endpoint_);
  }
}

void TlsContext::expect_host() {
  VerifyParameters* expected = library().SSL_CTX_get0_param(get());
  library().X509_VERIFY_PARAM_set_hostflags(expected, kCheckNeverCheckSubject | kCheckNoPartialWildcards);
  const std::string& host = endpoint_.host;
  const int set = is_address(host)
                      ? library().X509_VERIFY_PARAM_set1_ip_asc(expected, host.c_str())
                      : library().X509_VERIFY_PARAM_set1_host(expected, host.data(), host.size());
  if (set != 1) raise_unusable("the host name", endpoint_);
}

void TlsContext::set_certificate(const TlsOptions& options) {
  if (options.certificate_file.empty()) return;
  const std::string& key = options.key_file.empty() ? options.certificate_file : options.key_file;
  library().SSL_CTX_set_default_passwd_cb(get(), give_password);
  library().SSL_CTX_set_default_passwd_cb_userdata(get(), const_cast<std::string*>(&options.key_password));
  if (library().SSL_CTX_use_certificate_chain_file(get(), options.certificate_file.c_str()) != 1) {
    raise_unusable(shown("ssl_certfile", options.certificate_file), endpoint_);
  }
  if (library().SSL_CTX_use_PrivateKey_file(get(), key.c_str(), kFiletypePem) != 1) {
    raise_unusable(shown("ssl_keyfile", key) + " (with its ssl_password, if it is encrypted)", endpoint_);
  }
}

// A server sends its own certificate before those of its CAs.
void TlsContext::note_certificate(openssl::Session* session) noexcept {
  const auto* const chain = reinterpret_cast<const stack_st*>(library().SSL_get_peer_cert_chain(session));
  if (!endpoint_.tls->verify || chain == nullptr) return;
  const auto* const own = static_cast<const Certificate*>(library().OPENSSL_sk_value(chain, 0));
  int days = 0;
  int seconds = 0;
  if (library().ASN1_TIME_diff(&days, &seconds, nullptr, library().X509_get0_notAfter(own)) != 1) return;
  certificate_left_.store(std::int64_t{days} * 86'400 + seconds);
}

void require_tls() { static_cast<void>(library()); }

std::unique_ptr<Stream> tls_stream(Socket socket, std::shared_ptr<TlsContext> context) {
  return std::make_unique<TlsStream>(std::move(socket), std::move(context));
}

}  // namespace overlimit::redis::transport
