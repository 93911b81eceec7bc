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

}  // namespace

std::string key_of(std::string_view prefix, std::string_view policy, std::string_view identifier) {
  const bool plain = identifier.size() <= kMaxPlainIdentifier;
  std::string key;
  key.reserve(prefix.size() + policy.size() + (plain ? identifier.size() : 64) + 3);
  key.append(prefix).append(1, kFormatVersion).append(1, ':').append(policy).append(1, plain ? ':' : '#');
  return plain ? key.append(identifier) : key.append(sha256_of(identifier));
}

}  // namespace overlimit::redis
