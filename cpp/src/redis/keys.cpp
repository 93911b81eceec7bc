#include "redis/keys.hpp"

#include <openssl/sha.h>

#include <array>

#include "redis/hex.hpp"

namespace overlimit::redis {
namespace {

std::string sha256_of(std::string_view text) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest{};
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data());
  return hex(digest);
}

std::string start_of(std::string_view prefix, std::string_view policy) {
  std::string start(prefix);
  return start.append(1, kFormatVersion).append(1, ':').append(policy);
}

}  // namespace

std::string key_of(std::string_view prefix, std::string_view policy, std::string_view identifier) {
  std::string key = start_of(prefix, policy);
  if (identifier.size() > kMaxPlainIdentifier) return key.append(1, '#').append(sha256_of(identifier));
  return key.append(1, ':').append(identifier);
}

std::array<std::string, 2> patterns_of(std::string_view prefix, std::string_view policy) {
  const std::string start = start_of(prefix, policy);
  return {start + ":*", start + "#*"};
}

}  // namespace overlimit::redis
