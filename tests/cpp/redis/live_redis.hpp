// A store on a redis-server that all tests of a process share, empty when a test begins.
#pragma once

#include <memory>

#include "overlimit/redis_store.hpp"
#include "servers.hpp"

namespace overlimit::redis {

class LiveRedis {
 public:
  LiveRedis() { (void)transport::call(admin_, {"FLUSHALL"}); }

  /// A new store with connections of its own.
  [[nodiscard]] std::unique_ptr<RedisStore> store() const {
    return std::make_unique<RedisStore>(server().unix_socket(),
                                        RedisStore::Options{.timeout = For(5'000'000)});
  }
  /// A connection behind the store's back.
  transport::Connections& admin() { return admin_; }

  std::int64_t keys() { return transport::integer(admin_, {"DBSIZE"}); }

 private:
  static const transport::Server& server() {
    static const transport::Server server;
    return server;
  }

  transport::Connections admin_{server().unix_socket()};
};

}  // namespace overlimit::redis
