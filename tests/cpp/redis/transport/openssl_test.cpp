// What is said of OpenSSL without its headers, held against them.
#include "redis/transport/openssl.hpp"

#include <gtest/gtest.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <cstdlib>
#include <type_traits>

#include "overlimit/errors.hpp"

namespace overlimit::redis::transport {
namespace {

#define OVERLIMIT_COMPARE(result, name, parameters) \
  static_assert(std::is_same_v<decltype(openssl::Library::name), decltype(&::name)>, #name);
OVERLIMIT_OPENSSL_FUNCTIONS(OVERLIMIT_COMPARE)
#undef OVERLIMIT_COMPARE

TEST(Openssl, ValuesAreThoseOfItsHeaders) {
  EXPECT_EQ(openssl::kErrorLibSys, ERR_LIB_SYS);
  EXPECT_EQ(openssl::kErrorLibSsl, ERR_LIB_SSL);
  EXPECT_EQ(openssl::kBioTypeSourceSink, BIO_TYPE_SOURCE_SINK);
  EXPECT_EQ(openssl::kBioCtrlEof, BIO_CTRL_EOF);
  EXPECT_EQ(openssl::kBioCtrlFlush, BIO_CTRL_FLUSH);
  EXPECT_EQ(openssl::kBioFlagsRead, BIO_FLAGS_READ);
  EXPECT_EQ(openssl::kBioFlagsWrite, BIO_FLAGS_WRITE);
  EXPECT_EQ(openssl::kBioFlagsRetry, BIO_FLAGS_RWS | BIO_FLAGS_SHOULD_RETRY);
  EXPECT_EQ(openssl::kBioFlagsShouldRetry, BIO_FLAGS_SHOULD_RETRY);
  EXPECT_EQ(openssl::kTls12, TLS1_2_VERSION);
  EXPECT_EQ(openssl::kOpNoCompression, SSL_OP_NO_COMPRESSION);
  EXPECT_EQ(openssl::kOpNoRenegotiation, SSL_OP_NO_RENEGOTIATION);
  EXPECT_EQ(openssl::kSessionCacheOff, SSL_SESS_CACHE_OFF);
  EXPECT_EQ(openssl::kModeEnablePartialWrite, SSL_MODE_ENABLE_PARTIAL_WRITE);
  EXPECT_EQ(openssl::kModeAcceptMovingWriteBuffer, SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  EXPECT_EQ(openssl::kVerifyNone, SSL_VERIFY_NONE);
  EXPECT_EQ(openssl::kVerifyPeer, SSL_VERIFY_PEER);
  EXPECT_EQ(openssl::kFiletypePem, SSL_FILETYPE_PEM);
  EXPECT_EQ(openssl::kErrorWantRead, SSL_ERROR_WANT_READ);
  EXPECT_EQ(openssl::kErrorWantWrite, SSL_ERROR_WANT_WRITE);
  EXPECT_EQ(openssl::kErrorZeroReturn, SSL_ERROR_ZERO_RETURN);
  EXPECT_EQ(openssl::kCtrlMode, SSL_CTRL_MODE);
  EXPECT_EQ(openssl::kCtrlSetSessCacheMode, SSL_CTRL_SET_SESS_CACHE_MODE);
  EXPECT_EQ(openssl::kCtrlSetTlsextHostname, SSL_CTRL_SET_TLSEXT_HOSTNAME);
  EXPECT_EQ(openssl::kCtrlSetMinProtoVersion, SSL_CTRL_SET_MIN_PROTO_VERSION);
  EXPECT_EQ(openssl::kCtrlGetMinProtoVersion, SSL_CTRL_GET_MIN_PROTO_VERSION);
  EXPECT_EQ(openssl::kNameTypeHostName, TLSEXT_NAMETYPE_host_name);
  EXPECT_EQ(openssl::kVerifyOk, X509_V_OK);
  EXPECT_EQ(openssl::kVerifyErrCertNotYetValid, X509_V_ERR_CERT_NOT_YET_VALID);
  EXPECT_EQ(openssl::kVerifyErrCertHasExpired, X509_V_ERR_CERT_HAS_EXPIRED);
  EXPECT_EQ(openssl::kVerifyErrHostnameMismatch, X509_V_ERR_HOSTNAME_MISMATCH);
  EXPECT_EQ(openssl::kVerifyErrIpAddressMismatch, X509_V_ERR_IP_ADDRESS_MISMATCH);
  EXPECT_EQ(openssl::kVerifyErrEeKeyTooSmall, X509_V_ERR_EE_KEY_TOO_SMALL);
  EXPECT_EQ(openssl::kVerifyErrCaKeyTooSmall, X509_V_ERR_CA_KEY_TOO_SMALL);
  EXPECT_EQ(openssl::kVerifyErrCaMdTooWeak, X509_V_ERR_CA_MD_TOO_WEAK);
  EXPECT_EQ(openssl::kCheckNoPartialWildcards, unsigned{X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS});
  EXPECT_EQ(openssl::kCheckNeverCheckSubject, unsigned{X509_CHECK_FLAG_NEVER_CHECK_SUBJECT});
}

TEST(Openssl, ReasonsAreThoseOfItsHeaders) {
  EXPECT_EQ(openssl::kReasonCertificateVerifyFailed, SSL_R_CERTIFICATE_VERIFY_FAILED);
  EXPECT_EQ(openssl::kReasonHttpRequest, SSL_R_HTTP_REQUEST);
  EXPECT_EQ(openssl::kReasonPacketLengthTooLong, SSL_R_PACKET_LENGTH_TOO_LONG);
  EXPECT_EQ(openssl::kReasonUnsupportedProtocol, SSL_R_UNSUPPORTED_PROTOCOL);
  EXPECT_EQ(openssl::kReasonWrongVersionNumber, SSL_R_WRONG_VERSION_NUMBER);
  EXPECT_EQ(openssl::kReasonWrongCertificateType, SSL_R_WRONG_CERTIFICATE_TYPE);
  EXPECT_EQ(openssl::kReasonDhKeyTooSmall, SSL_R_DH_KEY_TOO_SMALL);
  EXPECT_EQ(openssl::kReasonCaKeyTooSmall, SSL_R_CA_KEY_TOO_SMALL);
  EXPECT_EQ(openssl::kReasonEeKeyTooSmall, SSL_R_EE_KEY_TOO_SMALL);
  const auto alert = [](int description) { return SSL_AD_REASON_OFFSET + description; };
  EXPECT_EQ(openssl::kReasonOfAlerts, alert(0));
  EXPECT_EQ(openssl::kAlertHandshakeFailure, alert(SSL_AD_HANDSHAKE_FAILURE));
  EXPECT_EQ(openssl::kAlertBadCertificate, alert(SSL_AD_BAD_CERTIFICATE));
  EXPECT_EQ(openssl::kAlertUnsupportedCertificate, alert(SSL_AD_UNSUPPORTED_CERTIFICATE));
  EXPECT_EQ(openssl::kAlertCertificateRevoked, alert(SSL_AD_CERTIFICATE_REVOKED));
  EXPECT_EQ(openssl::kAlertCertificateExpired, alert(SSL_AD_CERTIFICATE_EXPIRED));
  EXPECT_EQ(openssl::kAlertCertificateUnknown, alert(SSL_AD_CERTIFICATE_UNKNOWN));
  EXPECT_EQ(openssl::kAlertUnknownCa, alert(SSL_AD_UNKNOWN_CA));
  EXPECT_EQ(openssl::kAlertAccessDenied, alert(SSL_AD_ACCESS_DENIED));
  EXPECT_EQ(openssl::kAlertDecryptError, alert(SSL_AD_DECRYPT_ERROR));
  EXPECT_EQ(openssl::kAlertProtocolVersion, alert(SSL_AD_PROTOCOL_VERSION));
  EXPECT_EQ(openssl::kAlertInsufficientSecurity, alert(SSL_AD_INSUFFICIENT_SECURITY));
  EXPECT_EQ(openssl::kAlertUnrecognizedName, alert(SSL_AD_UNRECOGNIZED_NAME));
  EXPECT_EQ(openssl::kAlertCertificateRequired, alert(SSL_AD_CERTIFICATE_REQUIRED));
}

TEST(Openssl, ErrorsAreTakenApartAsByItsHeaders) {
  for (const unsigned long error : {ERR_PACK(ERR_LIB_SSL, 0, SSL_R_HTTP_REQUEST),
                                    ERR_PACK(ERR_LIB_X509, 0, 7), 0x80000000UL | ECONNRESET}) {
    EXPECT_EQ(openssl::library().observe_attempt(error), ERR_GET_LIB(error));
    EXPECT_EQ(openssl::library().reason_of(error), ERR_GET_REASON(error));
  }
  // OpenSSL 1.1.1 packs them differently: eight bits for the part, twelve for a function, twelve for the
  // reason.
  openssl::Library old;
  old.OpenSSL_version_num = [] { return openssl::kOldestVersion; };
  EXPECT_EQ(old.observe_attempt(0x1408f09c), openssl::kErrorLibSsl);
  EXPECT_EQ(old.reason_of(0x1408f09c), openssl::kReasonHttpRequest);
}

}  // namespace
}  // namespace overlimit::redis::transport
