#include "redis/keys.hpp"

#include "redis/digests.hpp"

namespace overlimit::redis {
namespace {

// With room for so many bytes more.
std::string start_of(const RedisStore::Keys& keys, std::string_view policy, std::size_t more = 0) {
  std::string start;
  start.reserve(keys.prefix.size() + policy.size() + more + 4);
  if (keys.hash_tag != HashTag::none) start += '{';
  start += keys.prefix;
  start += kFormatVersion;
  if (keys.hash_tag == HashTag::prefix) start += '}';
  start += ':';
  start += policy;
  if (keys.hash_tag == HashTag::policy) start += '}';
  return start;
}

}  // namespace

std::string key_of(const RedisStore::Keys& keys, std::string_view policy, std::string_view identifier) {
  std::string key = start_of(keys, policy, 1 + identifier.size());
  const bool is_hashed = keys.hash_identifiers || identifier.size() > kMaxPlainIdentifier;
  key += is_hashed ? '#' : ':';
  if (is_hashed) return key += sha256_hex(identifier);
  return key += identifier;
}

std::array<std::string, 2> starts_of(const RedisStore::Keys& keys, std::string_view policy) {
  const std::string start = start_of(keys, policy);
  return {start + ":", start + "#"};
}

std::array<std::string, 2> patterns_of(const RedisStore::Keys& keys, std::string_view policy) {
  const auto [plain, hashed] = starts_of(keys, policy);
  return {plain + "*", hashed + "*"};
}

}  // namespace overlimit::redis
