#include "redis/transport/synchronization.hpp"

namespace overlimit::redis::transport {

Woken wait_for(EventCount& event, WaiterSet waiters, std::uint32_t count, const Deadline& deadline) {
  if (Fibers* const fibers = Fibers::current()) return fibers->wait(&event, waiters, deadline.at());
  const Deadline end = end_of_wait(deadline);
  switch (event.wait(waiters, count, end.at())) {
    case EventCount::End::timed_out:
      return at_end_of_wait(end, deadline);
    case EventCount::End::interrupted:
      return Woken::by_signal;
    default:
      return Woken::by_event;
  }
}

void notify(EventCount& event, WaiterSet waiters) noexcept {
  if (Fibers* const fibers = Fibers::current()) return fibers->notify(&event, waiters);
  event.notify(waiters);
}

bool RateLimitedTask::try_begin() noexcept {
  if (Clock::now() < due_.load() || running_.exchange(true)) return false;
  if (Clock::now() >= due_.load()) return true;  // unless another run has ended just now
  running_.store(false);
  return false;
}

void RateLimitedTask::end(bool useful) noexcept {
  pause_ = useful ? std::chrono::milliseconds(0) : std::clamp(2 * pause_, first_pause_, kLongest);
  const std::chrono::microseconds interval = useful ? kShortest : pause_;
  due_.store(Clock::now() + interval / 2 + jittered(interval / 2));
  running_.store(false);
}

}  // namespace overlimit::redis::transport
