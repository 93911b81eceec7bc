#include "redis/transport/tls_failure.hpp"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>

#include <algorithm>

#include "overlimit/errors.hpp"
#include "overlimit/forks.hpp"

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

/// Never destroyed: errors may be reported while the process ends.
const std::error_category& the_category = *new TlsCategory;

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

unsigned long code_of(std::error_code error) {
  return static_cast<unsigned long>(static_cast<unsigned int>(error.value()));
}

int reason_of(std::error_code error) {
  const unsigned long code = code_of(error);
  return error.category() == tls_category() && ERR_GET_LIB(code) == ERR_LIB_SSL ? ERR_GET_REASON(code) : 0;
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

}  // namespace

const std::error_category& tls_category() noexcept { return the_category; }

std::error_code take_tls_error() noexcept {
  const unsigned long code = ERR_get_error();
  ERR_clear_error();
  return {static_cast<int>(code), tls_category()};
}

bool is_alert(std::error_code error) noexcept { return reason_of(error) >= SSL_AD_REASON_OFFSET; }

std::string_view advice_on(std::error_code error) noexcept {
  const int reason = reason_of(error);
  const auto* row = std::ranges::find(kTable, reason, &Row::reason);
  return row == std::ranges::end(kTable) ? std::string_view() : row->advice;
}

void raise_untrusted(long verify_result, const Endpoint& endpoint) {
  throw StoreConfigError("redis at " + endpoint.describe() + " has a certificate that is not trusted: " +
                         X509_verify_cert_error_string(verify_result) + "; " +
                         std::string(advice_on_certificate(verify_result)));
}

void raise_misconfigured(std::error_code error, const Endpoint& endpoint) {
  throw StoreConfigError("no TLS with redis at " + endpoint.describe() + ": " + error.message() + "; " +
                         std::string(advice_on(error)));
}

void raise_unusable(const std::string& what, const Endpoint& endpoint) {
  throw StoreConfigError("cannot use " + what + " for redis at " + endpoint.describe() + ": " +
                         take_tls_error().message());
}

}  // namespace overlimit::redis::transport
