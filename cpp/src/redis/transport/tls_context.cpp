#include "redis/transport/tls_context.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <cstddef>
#include <new>
#include <string>
#include <utility>

#include "overlimit/forks.hpp"
#include "redis/transport/tls_failure.hpp"

namespace overlimit::redis::transport {
namespace {

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

bool is_address(const std::string& host) noexcept {
  in6_addr parsed{};
  return ::inet_pton(AF_INET, host.c_str(), &parsed) == 1 ||
         ::inet_pton(AF_INET6, host.c_str(), &parsed) == 1;
}

}  // namespace overlimit::redis::transport
