// How long something took.
#pragma once

#include <chrono>

#include "overlimit/time.hpp"

namespace overlimit {

/// Runs from its construction on, by a clock that nobody sets. A value.
class Stopwatch {
 public:
  /// In microseconds, rounded up.
  [[nodiscard]] Duration elapsed() const {
    return Duration(std::chrono::ceil<std::chrono::microseconds>(Clock::now() - start_).count());
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now();
};

}  // namespace overlimit
