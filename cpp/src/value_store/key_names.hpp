// The names of keys in a store of one's own: policy and identifier, in characters that every database keeps.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "overlimit/policy_identity.hpp"

namespace overlimit::values {

inline constexpr std::size_t kMaxKey = 250;

/// `policy:identifier`; if that is longer than kMaxKey, or the identifier is not of printable ASCII without
/// spaces, `policy#` and its SHA-256 in 64 lowercase hexadecimal digits. In the place of a name, a policy
/// without one has `~` and its digest.
[[nodiscard]] std::string key_of(const PolicyIdentity& policy, std::string_view identifier);

/// What all keys of a policy and no others begin with.
[[nodiscard]] std::array<std::string, 2> starts_of(const PolicyIdentity& policy);

}  // namespace overlimit::values
