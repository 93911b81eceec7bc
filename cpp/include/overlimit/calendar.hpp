// Natural periods: days, weeks and months of a time zone, which the caller's source of bounds knows.
#pragma once

#include <array>
#include <functional>
#include <string>

#include "overlimit/time.hpp"

namespace overlimit {

/// The start of a period, its end, which is the start of the next, and the end of that.
using Bounds = std::array<Instant, 3>;

/// Whether these can be the bounds around an instant.
constexpr bool are_around(const Bounds& bounds, Instant instant) noexcept {
  const auto& [start, middle, end] = bounds;
  return Instant{} <= start && start <= instant && instant < middle && middle < end && end.micros() < kExact;
}

struct Calendar {
  /// Unit, time zone and first day of the week: what tells its records from those of another.
  std::string identity;
  /// The bounds around an instant. May be called by any thread, never under a lock of the engine.
  std::function<Bounds(Instant)> bounds_at;
};

}  // namespace overlimit
