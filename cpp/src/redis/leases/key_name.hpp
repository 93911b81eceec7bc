// Keys by their policy and identifier, for maps that are asked without a text being made.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "overlimit/call.hpp"

namespace overlimit::redis {

struct KeyName {
  std::string_view policy;
  std::string_view identifier;
};

inline bool operator==(const KeyName& one, const KeyName& other) {
  return one.identifier == other.identifier && one.policy == other.policy;
}

inline KeyName name_of(const Charge& charge) { return {charge.policy->name(), charge.identifier}; }

struct OwnKeyName {
  std::string policy;
  std::string identifier;

  explicit OwnKeyName(const KeyName& name) : policy(name.policy), identifier(name.identifier) {}
  operator KeyName() const { return {policy, identifier}; }
};

struct KeyNameHash {
  using is_transparent = void;
  std::size_t operator()(const KeyName& name) const {
    const std::hash<std::string_view> hash;
    return hash(name.identifier) * 31 + hash(name.policy);
  }
};

template <class T>
using MapByKeyName = std::unordered_map<OwnKeyName, T, KeyNameHash, std::equal_to<>>;

}  // namespace overlimit::redis
