// Redis-servers with TLS, and certificates for them.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "../servers.hpp"

namespace overlimit::redis::transport {

/// What tests/make-certificates makes, in a directory of their own.
class Certificates {
 public:
  Certificates() {
    std::string pattern = (std::filesystem::temp_directory_path() / "overlimit-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no directory");
    directory_ = pattern;
    if (std::system((OVERLIMIT_MAKE_CERTIFICATES " " + directory_).c_str()) != 0) {
      throw std::runtime_error("no certificates");
    }
  }
  Certificates(const Certificates&) = delete;
  Certificates& operator=(const Certificates&) = delete;
  ~Certificates() { std::filesystem::remove_all(directory_); }

  /// The path of "ca.pem", "client.key", ...
  [[nodiscard]] std::string operator()(const std::string& name) const { return directory_ + "/" + name; }

 private:
  std::string directory_;
};

/// A Server that also listens with TLS, by default without asking for a client's certificate.
class TlsServer {
 public:
  explicit TlsServer(const Certificates& certificates, const std::string& certificate = "server",
                     std::vector<std::string> options = {})
      : ca_(certificates("ca.pem")),
        port_(free_port()),
        server_(with_tls(certificates, certificate, std::move(options))) {}

  /// By name, trusting the tests' CA alone.
  [[nodiscard]] Endpoint tls() const {
    Endpoint endpoint;
    endpoint.port = port_;
    endpoint.tls = TlsOptions{};
    endpoint.tls->ca_file = ca_;
    return endpoint;
  }
  [[nodiscard]] std::uint16_t port() const { return port_; }
  [[nodiscard]] const Server& server() const { return server_; }

 private:
  [[nodiscard]] std::vector<std::string> with_tls(const Certificates& certificates,
                                                  const std::string& certificate,
                                                  std::vector<std::string> options) const {
    std::vector<std::string> all{"--tls-port",         std::to_string(port_),
                                 "--tls-cert-file",    certificates(certificate + ".pem"),
                                 "--tls-key-file",     certificates(certificate + ".key"),
                                 "--tls-ca-cert-file", ca_,
                                 "--tls-auth-clients", "no"};
    all.insert(all.end(), options.begin(), options.end());
    return all;
  }

  std::string ca_;
  std::uint16_t port_;
  Server server_;
};

}  // namespace overlimit::redis::transport
