// Stores on the redis-server that all tests of a process share.
#pragma once

#include <memory>

#include "../live_server.hpp"
#include "overlimit/redis_store.hpp"

namespace overlimit::redis {

class LiveRedis : public LiveServer {
 public:
  /// A new store with connections of its own, behind whose back admin() is.
  [[nodiscard]] std::unique_ptr<RedisStore> store() const {
    return std::make_unique<RedisStore>(server().unix_socket(),
                                        RedisStore::Options{.timeout = For(5'000'000)});
  }
};

}  // namespace overlimit::redis
