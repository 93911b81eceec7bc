// A redis-server with TLS for a suite of tests, and a connection behind the back of what is tested.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "tls_servers.hpp"

namespace overlimit::redis::transport {

class TlsTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    certificates_ = std::make_unique<Certificates>();
    server_ = std::make_unique<TlsServer>(*certificates_);
  }
  static void TearDownTestSuite() {
    server_.reset();
    certificates_.reset();
  }

  [[nodiscard]] static std::string file(const std::string& name) { return (*certificates_)(name); }
  /// The server in the clear or with TLS.
  [[nodiscard]] static Endpoint endpoint_of(const TlsServer& server, bool is_tls) {
    return is_tls ? server.tls() : server.server().tcp();
  }
  /// The server's endpoint behind a proxy's address; its certificate is for both.
  [[nodiscard]] static Endpoint behind(const Proxy& proxy, bool is_tls = true) {
    return endpoint_at({proxy.endpoint().host, proxy.endpoint().port}, endpoint_of(*server_, is_tls));
  }

  static std::unique_ptr<Certificates> certificates_;  // NOLINT: of the suite
  static std::unique_ptr<TlsServer> server_;           // NOLINT: of the suite
  Connections admin_{server_->server().unix_socket()};
};

inline std::unique_ptr<Certificates> TlsTest::certificates_;
inline std::unique_ptr<TlsServer> TlsTest::server_;

}  // namespace overlimit::redis::transport
