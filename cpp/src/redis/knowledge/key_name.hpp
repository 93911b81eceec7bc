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

  bool operator==(const KeyName&) const = default;
};

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

struct EqualKeyNames {
  using is_transparent = void;
  bool operator()(const KeyName& one, const KeyName& other) const { return one == other; }
};

template <class T>
using MapByKeyName = std::unordered_map<OwnKeyName, T, KeyNameHash, EqualKeyNames>;

}  // namespace overlimit::redis
