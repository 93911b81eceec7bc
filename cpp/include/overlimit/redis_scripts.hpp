// What the Redis store would send for a call: for people who want to read a script before they run it.
#pragma once

#ifndef OVERLIMIT_LINKS_REDIS
#error "only targets that link overlimit_redis may include redis_scripts.hpp"
#endif

#include <string>
#include <vector>

#include "overlimit/redis_store.hpp"
#include "overlimit/store.hpp"

namespace overlimit::redis {

enum class ScriptUse : std::uint8_t { decide, read, refund, lock, lease, restore };

/// The script with its arguments, as EVAL takes them (lua/README.md).
struct ScriptListing {
  std::string text;
  std::string sha1;
  std::vector<std::string> keys;
  std::vector<std::string> arguments;
};

/// For a call of a policy that is charged once to each identifier; a lease has one. Numbers that only a
/// decision or a caller knows, such as a receipt, are zeros. Asks no server.
ScriptListing script_listing(ScriptUse use, const CompiledPolicy& policy,
                             std::span<const std::string_view> identifiers, const RedisStore::Keys& keys);

}  // namespace overlimit::redis
