// A redis-server for a suite of tests, and a connection behind the back of what is tested.
#pragma once

#include <gtest/gtest.h>

#include <memory>

#include "../servers.hpp"

namespace overlimit::redis::transport {

class ConnectionsTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { server_ = std::make_unique<Server>(); }
  static void TearDownTestSuite() { server_.reset(); }

  [[nodiscard]] std::int64_t clients() { return clients_of(admin_); }

  static std::unique_ptr<Server> server_;  // NOLINT: of the suite
  Connections admin_{server_->unix_socket()};
};

inline std::unique_ptr<Server> ConnectionsTest::server_;

}  // namespace overlimit::redis::transport
