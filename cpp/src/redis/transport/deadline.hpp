// The end of the time that one whole call may take.
#pragma once

#include <algorithm>
#include <chrono>

namespace overlimit::redis::transport {

/// A point of the steady clock, fixed when it is made. A value.
class Deadline {
 public:
  using Clock = std::chrono::steady_clock;

  /// A timeout of zero or less has passed already; one of more than a year is a year.
  explicit Deadline(std::chrono::microseconds timeout)
      : at_(Clock::now() + std::clamp(timeout, -kLongest, kLongest)) {}
  explicit Deadline(Clock::time_point at) noexcept : at_(at) {}

  [[nodiscard]] Clock::time_point at() const noexcept { return at_; }
  [[nodiscard]] bool passed() const noexcept { return Clock::now() >= at_; }
  /// Zero once it has passed.
  [[nodiscard]] Clock::duration remaining() const noexcept {
    return std::max(at_ - Clock::now(), Clock::duration::zero());
  }
  /// An earlier one: at the end of the n-th part of what remains.
  [[nodiscard]] Deadline share(int n) const noexcept { return Deadline(Clock::now() + remaining() / n); }

 private:
  static constexpr std::chrono::microseconds kLongest = std::chrono::hours{24 * 365};

  Clock::time_point at_;
};

}  // namespace overlimit::redis::transport
