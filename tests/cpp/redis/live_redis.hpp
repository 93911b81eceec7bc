// A store on a redis-server that all tests of a process share, empty when a test begins.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "overlimit/redis_store.hpp"
#include "servers.hpp"

namespace overlimit::redis {

class LiveRedis {
 public:
  LiveRedis() { (void)transport::call(admin_, {"FLUSHALL"}); }

  /// A new store with connections of its own.
  [[nodiscard]] std::unique_ptr<RedisStore> store() const {
    return std::make_unique<RedisStore>(server().unix_socket(), RedisStore::Options{.timeout = 5'000'000});
  }
  /// A connection behind the store's back.
  transport::Connections& admin() { return admin_; }

  /// The value of a key, or nothing.
  std::string value(std::string_view key) {
    const transport::Reply reply = transport::call(admin_, {"GET", key});
    return reply.is_string() ? std::string(reply.as_text()) : std::string();
  }
  std::int64_t keys() { return transport::integer(admin_, {"DBSIZE"}); }

 private:
  static const transport::Server& server() {
    static const transport::Server server;
    return server;
  }

  transport::Connections admin_{server().unix_socket()};
};

}  // namespace overlimit::redis
