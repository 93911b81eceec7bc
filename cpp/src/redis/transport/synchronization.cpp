#include "redis/transport/synchronization.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>

namespace overlimit::redis::transport {
namespace {

static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t));

}  // namespace

void FutexEvent::notify(WaiterSet waiters) noexcept {
  count_.fetch_add(1, std::memory_order_release);
  ::syscall(SYS_futex, &count_, FUTEX_WAKE_BITSET_PRIVATE, INT_MAX, nullptr, nullptr, waiters);
}

/// The steady clock is CLOCK_MONOTONIC, which this operation uses.
Woken FutexEvent::wait(WaiterSet waiters, std::uint32_t count, const Deadline& deadline) noexcept {
  const Deadline end = end_of_wait(deadline);
  const timespec until = timespec_of(end.at().time_since_epoch());
  if (::syscall(SYS_futex, &count_, FUTEX_WAIT_BITSET_PRIVATE, count, &until, nullptr, waiters) == 0) {
    return Woken::by_event;
  }
  if (errno == ETIMEDOUT) return at_end_of_wait(end, deadline);
  return errno == EINTR ? Woken::by_signal : Woken::by_event;
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
