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
  interval_ = useful ? kShortest : std::min(2 * interval_, kLongest);
  due_.store(Clock::now() + interval_ / 2 + jittered(interval_ / 2));
  taken_.store(false);
}

}  // namespace overlimit::redis::transport
