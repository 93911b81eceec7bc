#include "platform/event_count.hpp"

#if defined(__linux__) && !defined(OVERLIMIT_PORTABLE)

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <mutex>

#include <cerrno>
#include <climits>
#include <ctime>

namespace overlimit::platform {

static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t));

void EventCount::notify(WaiterSet waiters) noexcept {
  count_.fetch_add(1, std::memory_order_release);
  ::syscall(SYS_futex, &count_, FUTEX_WAKE_BITSET_PRIVATE, INT_MAX, nullptr, nullptr, waiters);
}

/// The steady clock is CLOCK_MONOTONIC, which this operation uses.
EventCount::End EventCount::wait(WaiterSet waiters, std::uint32_t count,
                                 std::chrono::steady_clock::time_point until) noexcept {
  constexpr std::int64_t kSecond = 1'000'000'000;
  const std::int64_t at = std::chrono::nanoseconds(until.time_since_epoch()).count();
  const timespec time{static_cast<std::time_t>(at / kSecond), static_cast<long>(at % kSecond)};
  if (::syscall(SYS_futex, &count_, FUTEX_WAIT_BITSET_PRIVATE, count, &time, nullptr, waiters) == 0) {
    return End::notified;
  }
  if (errno == ETIMEDOUT) return End::timed_out;
  return errno == EINTR ? End::interrupted : End::notified;
}

}  // namespace overlimit::platform

#else

namespace overlimit::platform {

// All are woken, whomever a notification is for: the others look, and wait again.
void EventCount::notify(WaiterSet /*waiters*/) noexcept {
  {
    const std::lock_guard lock(mutex_);
    count_.fetch_add(1, std::memory_order_release);
  }
  changed_.notify_all();
}

EventCount::End EventCount::wait(WaiterSet /*waiters*/, std::uint32_t count,
                                 std::chrono::steady_clock::time_point until) noexcept {
  std::unique_lock lock(mutex_);
  const bool is_notified = changed_.wait_until(lock, until, [&] { return this->count() != count; });
  return is_notified ? End::notified : End::timed_out;
}

}  // namespace overlimit::platform

#endif
