#include "platform/futex.hpp"

#if defined(__linux__) && !defined(OVERLIMIT_PORTABLE)

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <ctime>

namespace overlimit::platform {
namespace {

static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t));

timespec timespec_of(std::chrono::nanoseconds time) {
  constexpr std::int64_t kSecond = 1'000'000'000;
  return {static_cast<std::time_t>(time.count() / kSecond), static_cast<long>(time.count() % kSecond)};
}

}  // namespace

void sleep_while(std::atomic<std::uint32_t>& word, std::uint32_t seen,
                 std::chrono::nanoseconds longest) noexcept {
  const timespec time = timespec_of(longest);
  ::syscall(SYS_futex, &word, FUTEX_WAIT, seen, &time, nullptr, 0);
}

void wake_one(std::atomic<std::uint32_t>& word) noexcept {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

void EventCount::notify(WaiterSet waiters) noexcept {
  count_.fetch_add(1, std::memory_order_release);
  ::syscall(SYS_futex, &count_, FUTEX_WAKE_BITSET_PRIVATE, INT_MAX, nullptr, nullptr, waiters);
}

/// The steady clock is CLOCK_MONOTONIC, which this operation uses.
EventCount::End EventCount::wait(WaiterSet waiters, std::uint32_t count,
                                 std::chrono::steady_clock::time_point until) noexcept {
  const timespec time = timespec_of(until.time_since_epoch());
  if (::syscall(SYS_futex, &count_, FUTEX_WAIT_BITSET_PRIVATE, count, &time, nullptr, waiters) == 0) {
    return End::notified;
  }
  if (errno == ETIMEDOUT) return End::timed_out;
  return errno == EINTR ? End::interrupted : End::notified;
}

}  // namespace overlimit::platform

#else

#include <algorithm>
#include <thread>

namespace overlimit::platform {

// POSIX has nothing that waits for a word of another process: a nap, after which the caller looks again.
void sleep_while(std::atomic<std::uint32_t>& word, std::uint32_t seen,
                 std::chrono::nanoseconds longest) noexcept {
  constexpr std::chrono::nanoseconds kNap = std::chrono::milliseconds(1);
  if (word.load(std::memory_order_relaxed) == seen) std::this_thread::sleep_for(std::min(longest, kNap));
}

void wake_one(std::atomic<std::uint32_t>& /*word*/) noexcept {}

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
