#include "value_store/key_names.hpp"

#include <algorithm>

#include "values/digests.hpp"

namespace overlimit::values {
namespace {

std::string name_of(const PolicyIdentity& policy) {
  if (policy.has_name()) return policy.name();
  std::string name(1, '~');
  name += std::to_string(policy.digest());
  return name;
}

bool is_plain(std::string_view text) {
  return std::ranges::all_of(text, [](char each) { return each > ' ' && each <= '~'; });
}

}  // namespace

std::string key_of(const PolicyIdentity& policy, std::string_view identifier) {
  std::string key = name_of(policy);
  if (key.size() + 1 + identifier.size() <= kMaxKey && is_plain(identifier)) {
    key += ':';
    key += identifier;
  } else {
    key += '#';
    key += sha256_hex(identifier);
  }
  return key;
}

std::array<std::string, 2> starts_of(const PolicyIdentity& policy) {
  return {name_of(policy) + ":", name_of(policy) + "#"};
}

}  // namespace overlimit::values
