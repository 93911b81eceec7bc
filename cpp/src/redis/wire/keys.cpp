#include "redis/wire/keys.hpp"

#include <algorithm>

#include "values/digests.hpp"

namespace overlimit::redis {

using values::kDigitsOfSha256;
using values::sha256_hex;
namespace {

bool is_hashed(const KeyNaming& keys, std::string_view identifier) {
  return keys.hash_identifiers || keys.takes_hashes || identifier.size() > kMaxPlainIdentifier;
}

/// Without the separator in front of the identifier.
std::size_t size_of_start(const KeyNaming& keys, std::string_view policy) {
  return keys.prefix.size() + policy.size() + (keys.hash_tag == HashTag::none ? 2 : 4);
}

char* write(std::string_view text, char* to) { return std::copy(text.begin(), text.end(), to); }

char* write_start(const KeyNaming& keys, std::string_view policy, char* to) {
  if (keys.hash_tag != HashTag::none) *to++ = '{';
  to = write(keys.prefix, to);
  *to++ = kFormatVersion;
  if (keys.hash_tag == HashTag::prefix) *to++ = '}';
  *to++ = ':';
  to = write(policy, to);
  if (keys.hash_tag == HashTag::policy) *to++ = '}';
  return to;
}

std::size_t size_of_key(const KeyNaming& keys, std::string_view policy, std::string_view identifier) {
  return size_of_start(keys, policy) + 1 +
         (is_hashed(keys, identifier) && !keys.takes_hashes ? kDigitsOfSha256 : identifier.size());
}

void write_key(const KeyNaming& keys, std::string_view policy, std::string_view identifier, char* to) {
  to = write_start(keys, policy, to);
  *to++ = is_hashed(keys, identifier) ? '#' : ':';
  if (is_hashed(keys, identifier) && !keys.takes_hashes) {
    write(sha256_hex(identifier), to);
  } else {
    write(identifier, to);
  }
}

}  // namespace

std::string key_of(const KeyNaming& keys, std::string_view policy, std::string_view identifier) {
  std::string key(size_of_key(keys, policy, identifier), '\0');
  write_key(keys, policy, identifier, key.data());
  return key;
}

std::string key_of(const KeyNaming& keys, const Charge& charge) {
  return key_of(keys, charge.policy->name(), charge.identifier);
}

std::vector<std::string> keys_of(const KeyNaming& keys, const Call& call) {
  std::vector<std::string> all;
  all.reserve(call.charges.size());
  for (const Charge& each : call.charges) all.push_back(key_of(keys, each));
  return all;
}

std::vector<std::string> keys_of(const KeyNaming& keys, const PolicyIdentity& policy,
                                 std::span<const std::string_view> identifiers) {
  std::vector<std::string> all;
  for (const std::string_view each : identifiers) all.push_back(key_of(keys, policy.name(), each));
  return all;
}

KeyText::KeyText(const KeyNaming& keys, std::string_view policy, std::string_view identifier)
    : size_(size_of_key(keys, policy, identifier)) {
  if (size_ > room_.size()) long_.resize(size_);
  write_key(keys, policy, identifier, long_.empty() ? room_.data() : long_.data());
}

std::array<std::string, 2> starts_of(const KeyNaming& keys, std::string_view policy) {
  std::string start(size_of_start(keys, policy), '\0');
  write_start(keys, policy, start.data());
  return {start + ":", start + "#"};
}

std::array<std::string, 2> patterns_of(const KeyNaming& keys, std::string_view policy) {
  const auto [plain, hashed] = starts_of(keys, policy);
  return {plain + "*", hashed + "*"};
}

}  // namespace overlimit::redis
