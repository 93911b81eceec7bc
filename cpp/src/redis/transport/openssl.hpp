// OpenSSL, as far as it is used here. It is looked up when TLS is first asked for, so that no build needs it,
// no wheel carries it, and a process has the one that Python's ssl has. Types, functions and values are
// described in its manual; a test compares them with its headers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

// Its own types, which stay opaque.
extern "C" {
struct asn1_string_st;
struct bio_method_st;
struct bio_st;
struct ssl_ctx_st;
struct ssl_method_st;
struct ssl_st;
struct stack_st;
struct stack_st_X509;
struct x509_st;
struct x509_store_ctx_st;
struct x509_store_st;
struct X509_VERIFY_PARAM_st;
}

namespace overlimit::redis::transport::openssl {

using Bio = bio_st;
using BioMethod = bio_method_st;
using Context = ssl_ctx_st;
using Session = ssl_st;
using Certificate = x509_st;
using CertificateStore = x509_store_st;
using VerifyParameters = X509_VERIFY_PARAM_st;
using AskPassword = int(char* buffer, int size, int writing, void* data);
using Verified = int(int ok, x509_store_ctx_st*);

// Each as its result, its name and its parameters.
// NOLINTNEXTLINE(cppcoreguidelines-macro-usage): names that are declared, looked up and compared from one
// list
#define OVERLIMIT_OPENSSL_FUNCTIONS(FUNCTION)                                               \
  FUNCTION(int, ASN1_TIME_diff, (int*, int*, const asn1_string_st*, const asn1_string_st*)) \
  FUNCTION(void, BIO_clear_flags, (Bio*, int))                                              \
  FUNCTION(void, BIO_free_all, (Bio*))                                                      \
  FUNCTION(void*, BIO_get_data, (Bio*))                                                     \
  FUNCTION(int, BIO_get_new_index, ())                                                      \
  FUNCTION(BioMethod*, BIO_meth_new, (int, const char*))                                    \
  FUNCTION(int, BIO_meth_set_ctrl, (BioMethod*, long (*)(Bio*, int, long, void*)))          \
  FUNCTION(int, BIO_meth_set_read, (BioMethod*, int (*)(Bio*, char*, int)))                 \
  FUNCTION(int, BIO_meth_set_write, (BioMethod*, int (*)(Bio*, const char*, int)))          \
  FUNCTION(Bio*, BIO_new, (const BioMethod*))                                               \
  FUNCTION(Bio*, BIO_new_mem_buf, (const void*, int))                                       \
  FUNCTION(void, BIO_set_data, (Bio*, void*))                                               \
  FUNCTION(void, BIO_set_flags, (Bio*, int))                                                \
  FUNCTION(void, BIO_set_init, (Bio*, int))                                                 \
  FUNCTION(void, ERR_clear_error, ())                                                       \
  FUNCTION(unsigned long, ERR_get_error, ())                                                \
  FUNCTION(const char*, ERR_reason_error_string, (unsigned long))                           \
  FUNCTION(void*, OPENSSL_sk_value, (const stack_st*, int))                                 \
  FUNCTION(const char*, OpenSSL_version, (int))                                             \
  FUNCTION(unsigned long, OpenSSL_version_num, ())                                          \
  FUNCTION(Certificate*, PEM_read_bio_X509, (Bio*, Certificate**, AskPassword*, void*))     \
  FUNCTION(long, SSL_CTX_ctrl, (Context*, int, long, void*))                                \
  FUNCTION(void, SSL_CTX_free, (Context*))                                                  \
  FUNCTION(VerifyParameters*, SSL_CTX_get0_param, (Context*))                               \
  FUNCTION(CertificateStore*, SSL_CTX_get_cert_store, (const Context*))                     \
  FUNCTION(int, SSL_CTX_load_verify_locations, (Context*, const char*, const char*))        \
  FUNCTION(Context*, SSL_CTX_new, (const ssl_method_st*))                                   \
  FUNCTION(void, SSL_CTX_set_default_passwd_cb, (Context*, AskPassword*))                   \
  FUNCTION(void, SSL_CTX_set_default_passwd_cb_userdata, (Context*, void*))                 \
  FUNCTION(int, SSL_CTX_set_default_verify_paths, (Context*))                               \
  FUNCTION(std::uint64_t, SSL_CTX_set_options, (Context*, std::uint64_t))                   \
  FUNCTION(void, SSL_CTX_set_verify, (Context*, int, Verified*))                            \
  FUNCTION(int, SSL_CTX_use_PrivateKey_file, (Context*, const char*, int))                  \
  FUNCTION(int, SSL_CTX_use_certificate_chain_file, (Context*, const char*))                \
  FUNCTION(long, SSL_ctrl, (Session*, int, long, void*))                                    \
  FUNCTION(void, SSL_free, (Session*))                                                      \
  FUNCTION(int, SSL_get_error, (const Session*, int))                                       \
  FUNCTION(stack_st_X509*, SSL_get_peer_cert_chain, (const Session*))                       \
  FUNCTION(long, SSL_get_verify_result, (const Session*))                                   \
  FUNCTION(int, SSL_is_init_finished, (const Session*))                                     \
  FUNCTION(Session*, SSL_new, (Context*))                                                   \
  FUNCTION(int, SSL_read_ex, (Session*, void*, std::size_t, std::size_t*))                  \
  FUNCTION(void, SSL_set_bio, (Session*, Bio*, Bio*))                                       \
  FUNCTION(void, SSL_set_connect_state, (Session*))                                         \
  FUNCTION(int, SSL_write_ex, (Session*, const void*, std::size_t, std::size_t*))           \
  FUNCTION(const ssl_method_st*, TLS_client_method, ())                                     \
  FUNCTION(int, X509_STORE_add_cert, (CertificateStore*, Certificate*))                     \
  FUNCTION(int, X509_VERIFY_PARAM_set1_host, (VerifyParameters*, const char*, std::size_t)) \
  FUNCTION(int, X509_VERIFY_PARAM_set1_ip_asc, (VerifyParameters*, const char*))            \
  FUNCTION(void, X509_VERIFY_PARAM_set_hostflags, (VerifyParameters*, unsigned int))        \
  FUNCTION(const asn1_string_st*, X509_get0_notAfter, (const Certificate*))                 \
  FUNCTION(void, X509_free, (Certificate*))                                                 \
  FUNCTION(const char*, X509_verify_cert_error_string, (long))

struct Library {
// NOLINTNEXTLINE(bugprone-macro-parentheses): parts of a declaration
#define OVERLIMIT_DECLARE(result, name, parameters) result(*name) parameters = nullptr;
  OVERLIMIT_OPENSSL_FUNCTIONS(OVERLIMIT_DECLARE)
#undef OVERLIMIT_DECLARE

  /// The part of OpenSSL that an error is from, and its reason within that part: ERR_GET_LIB and
  /// ERR_GET_REASON, which are not the same in all versions.
  [[nodiscard]] int observe_attempt(unsigned long error) const noexcept;
  [[nodiscard]] int reason_of(unsigned long error) const noexcept;

  /// What are macros in the headers.
  /// Nothing where the configuration of OpenSSL asks for a later one.
  void raise_min_proto_version(Context* context, int version) const;
  void set_session_cache_mode(Context* context, int mode) const;
  void set_mode(Context* context, long mode) const;
  [[nodiscard]] bool set_host_name(Session* session, const char* host) const;

 private:
  [[nodiscard]] bool is_3() const noexcept { return OpenSSL_version_num() >= 0x30000000; }
};

/// The OpenSSL of this process: the one that the environment variable OVERLIMIT_OPENSSL names, else the one
/// that is loaded already, as by Python's ssl, else the system's. Throws StoreConfigError if there is none.
[[nodiscard]] const Library& library();

inline constexpr unsigned long kOldestVersion = 0x10101000;  // 1.1.1

inline constexpr int kErrorLibSys = 2;
inline constexpr int kErrorLibSsl = 20;

inline constexpr int kBioTypeSourceSink = 0x400;
inline constexpr int kBioCtrlEof = 2;
inline constexpr int kBioCtrlFlush = 11;
inline constexpr int kBioFlagsRead = 1;
inline constexpr int kBioFlagsWrite = 2;
inline constexpr int kBioFlagsRetry =
    15;  // reading, writing, another reason, and that the call is to be repeated
inline constexpr int kBioFlagsShouldRetry = 8;

inline constexpr int kTls12 = 0x303;
inline constexpr std::uint64_t kOpNoCompression = std::uint64_t{1} << 17;
inline constexpr std::uint64_t kOpNoRenegotiation = std::uint64_t{1} << 30;
inline constexpr int kSessionCacheOff = 0;
inline constexpr long kModeEnablePartialWrite = 1;
inline constexpr long kModeAcceptMovingWriteBuffer = 2;
inline constexpr int kVerifyNone = 0;
inline constexpr int kVerifyPeer = 1;
inline constexpr int kFiletypePem = 1;

inline constexpr int kErrorWantRead = 2;
inline constexpr int kErrorWantWrite = 3;
inline constexpr int kErrorZeroReturn = 6;

inline constexpr int kCtrlMode = 33;
inline constexpr int kCtrlSetSessCacheMode = 44;
inline constexpr int kCtrlSetTlsextHostname = 55;
inline constexpr int kCtrlSetMinProtoVersion = 123;
inline constexpr int kCtrlGetMinProtoVersion = 130;
inline constexpr long kNameTypeHostName = 0;

inline constexpr long kVerifyOk = 0;
inline constexpr long kVerifyErrCertNotYetValid = 9;
inline constexpr long kVerifyErrCertHasExpired = 10;
inline constexpr long kVerifyErrHostnameMismatch = 62;
inline constexpr long kVerifyErrIpAddressMismatch = 64;
inline constexpr long kVerifyErrEeKeyTooSmall = 66;
inline constexpr long kVerifyErrCaKeyTooSmall = 67;
inline constexpr long kVerifyErrCaMdTooWeak = 68;
inline constexpr unsigned int kCheckNoPartialWildcards = 4;
inline constexpr unsigned int kCheckNeverCheckSubject = 32;

/// Reasons of errors that are found here, and that the peer reports in an alert.
enum Reason : int {
  kReasonCertificateVerifyFailed = 134,
  kReasonHttpRequest = 156,
  kReasonPacketLengthTooLong = 198,
  kReasonUnsupportedProtocol = 258,
  kReasonWrongVersionNumber = 267,
  kReasonWrongCertificateType = 383,
  kReasonDhKeyTooSmall = 394,
  kReasonCaKeyTooSmall = 397,
  kReasonEeKeyTooSmall = 399,
  kReasonOfAlerts = 1000,
  kAlertHandshakeFailure = kReasonOfAlerts + 40,
  kAlertBadCertificate = kReasonOfAlerts + 42,
  kAlertUnsupportedCertificate = kReasonOfAlerts + 43,
  kAlertCertificateRevoked = kReasonOfAlerts + 44,
  kAlertCertificateExpired = kReasonOfAlerts + 45,
  kAlertCertificateUnknown = kReasonOfAlerts + 46,
  kAlertUnknownCa = kReasonOfAlerts + 48,
  kAlertAccessDenied = kReasonOfAlerts + 49,
  kAlertDecryptError = kReasonOfAlerts + 51,
  kAlertProtocolVersion = kReasonOfAlerts + 70,
  kAlertInsufficientSecurity = kReasonOfAlerts + 71,
  kAlertUnrecognizedName = kReasonOfAlerts + 112,
  kAlertCertificateRequired = kReasonOfAlerts + 116,
};

}  // namespace overlimit::redis::transport::openssl
