#include "redis/protocol/cause.hpp"

#include <algorithm>

namespace overlimit::redis::protocol {

Cause Cause::of(const StoreError& error) {
  if (dynamic_cast<const StoreConfigError*>(&error) != nullptr) return {Kind::config, error.what()};
  if (dynamic_cast<const ScriptError*>(&error) != nullptr) return {Kind::script, error.what()};
  if (dynamic_cast<const StoreTimeout*>(&error) != nullptr) return {Kind::timeout, error.what()};
  return {Kind::unavailable, error.what()};
}

void Cause::raise(bool maybe_charged) const {
  switch (kind_) {
    case Kind::timeout:
      throw StoreTimeout(what_, maybe_charged);
    case Kind::config:
      throw StoreConfigError(what_, maybe_charged);
    case Kind::script:
      throw ScriptError(what_, maybe_charged);
    case Kind::unavailable:
      break;
  }
  throw StoreUnavailable(what_, maybe_charged);
}

void Cause::raise_again(std::chrono::microseconds until_next) const {
  const Micros wait = std::max<Micros>(1, until_next.count());
  const std::string what = what_ + "; it is not asked again before a probe is answered";
  if (kind_ == Kind::config) throw StoreConfigError(what, false, wait);
  throw StoreUnavailable(what, false, wait);
}

}  // namespace overlimit::redis::protocol
