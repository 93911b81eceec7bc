// The names of keys in Redis: prefix and format version, policy, identifier.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "overlimit/call.hpp"
#include "overlimit/non_copyable.hpp"
#include "overlimit/redis_keys.hpp"

namespace overlimit::redis {

inline constexpr char kFormatVersion = '1';
inline constexpr std::size_t kMaxPlainIdentifier = 256;

/// `ol1:policy:identifier`, with a hash tag `{ol1:policy}:identifier` or `{ol1}:policy:identifier`. An
/// identifier over kMaxPlainIdentifier bytes, or any if all are to be hashed, is `ol1:policy#` and its
/// SHA-256 in 64 lowercase hex digits. Prefix and policy cannot hold ':' or '#', so no two pairs share a key.
std::string key_of(const KeyNaming& keys, std::string_view policy, std::string_view identifier);

std::string key_of(const KeyNaming& keys, const Charge& charge);

/// Of each charge of a call, and of identifiers in a policy.
std::vector<std::string> keys_of(const KeyNaming& keys, const Call& call);
std::vector<std::string> keys_of(const KeyNaming& keys, const PolicyIdentity& policy,
                                 std::span<const std::string_view> identifiers);

/// The same on the stack, unless it is long.
class KeyText : NonCopyable {
 public:
  KeyText(const KeyNaming& keys, std::string_view policy, std::string_view identifier);
  operator std::string_view() const { return {long_.empty() ? room_.data() : long_.data(), size_}; }

 private:
  std::size_t size_;
  std::array<char, 128> room_;
  std::string long_;
};

/// What all keys of a policy and no others begin with, not hashed and hashed.
std::array<std::string, 2> starts_of(const KeyNaming& keys, std::string_view policy);

/// The patterns that match all keys of a policy and no others, hashed or not.
std::array<std::string, 2> patterns_of(const KeyNaming& keys, std::string_view policy);

}  // namespace overlimit::redis
