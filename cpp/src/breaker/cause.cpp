#include "breaker/cause.hpp"

#include <algorithm>

namespace overlimit {
namespace {

std::string seconds(Duration duration) {
  const std::string tenths = std::to_string(ceil_div(duration.micros(), 100'000));
  return tenths.size() > 1 ? tenths.substr(0, tenths.size() - 1) + "." + tenths.back() : "0." + tenths;
}

}  // namespace

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
  const Duration wait = std::max(kMicrosecond, Duration(until_next.count()));
  const std::string what =
      what_ + "; calls fail at once until a probe is answered, the next one in " + seconds(wait) + " s";
  if (kind_ == Kind::config) throw StoreConfigError(what, false, wait);
  throw StoreUnavailable(what, false, wait);
}

}  // namespace overlimit
