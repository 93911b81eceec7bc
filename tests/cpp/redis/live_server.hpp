// A redis-server that all tests of a process share, empty when a test begins.
#pragma once

#include "servers.hpp"

namespace overlimit::redis {

class LiveServer {
 public:
  LiveServer() { (void)transport::call(admin_, {"FLUSHALL"}); }

  transport::Connections& admin() { return admin_; }
  std::int64_t keys() { return transport::integer(admin_, {"DBSIZE"}); }

 protected:
  static const transport::Server& server() {
    static const transport::Server server;
    return server;
  }

 private:
  transport::Connections admin_{server().unix_socket()};
};

}  // namespace overlimit::redis
