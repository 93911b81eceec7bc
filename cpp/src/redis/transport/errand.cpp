#include "redis/transport/errand.hpp"

#include <algorithm>

#include "redis/transport/backoff.hpp"

namespace overlimit::redis::transport {

bool Errand::take() noexcept {
  if (Clock::now() < due_.load() || taken_.exchange(true)) return false;
  if (Clock::now() >= due_.load()) return true;  // not after another's turn that ended just now
  taken_.store(false);
  return false;
}

void Errand::give_back(bool useful) noexcept {
  pause_ = useful ? std::chrono::milliseconds(0) : std::clamp(2 * pause_, first_pause_, kLongest);
  const std::chrono::microseconds interval = useful ? kShortest : pause_;
  due_.store(Clock::now() + interval / 2 + jittered(interval / 2));
  taken_.store(false);
}

}  // namespace overlimit::redis::transport
