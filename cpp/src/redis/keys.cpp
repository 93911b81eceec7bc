#include "redis/keys.hpp"

#include "redis/digests.hpp"

namespace overlimit::redis {
namespace {

std::string start_of(const RedisStore::Keys& keys, std::string_view policy) {
  std::string start = keys.prefix + kFormatVersion;
  if (keys.hash_tag == HashTag::prefix) start = "{" + start + "}";
  start.append(1, ':').append(policy);
  return keys.hash_tag == HashTag::policy ? "{" + start + "}" : start;
}

}  // namespace

std::string key_of(const RedisStore::Keys& keys, std::string_view policy, std::string_view identifier) {
  std::string key = start_of(keys, policy);
  const bool is_hashed = keys.hash_identifiers || identifier.size() > kMaxPlainIdentifier;
  if (is_hashed) return key.append(1, '#').append(sha256_hex(identifier));
  return key.append(1, ':').append(identifier);
}

std::array<std::string, 2> patterns_of(const RedisStore::Keys& keys, std::string_view policy) {
  const std::string start = start_of(keys, policy);
  return {start + ":*", start + "#*"};
}

}  // namespace overlimit::redis
