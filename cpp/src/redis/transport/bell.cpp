#include "redis/transport/bell.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <ctime>

namespace overlimit::redis::transport {
namespace {

static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t));

timespec timespec_of(Deadline::Clock::time_point instant) {
  const auto since = instant.time_since_epoch();
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(since);
  const auto nanoseconds = std::chrono::duration_cast<std::chrono::nanoseconds>(since - seconds);
  return {static_cast<std::time_t>(seconds.count()), static_cast<long>(nanoseconds.count())};
}

/// Sleeps while the word is 0; the steady clock is CLOCK_MONOTONIC, which this operation counts by.
int sleep_while_zero(std::atomic<std::uint32_t>& word, const timespec& until) {
  return static_cast<int>(
      ::syscall(SYS_futex, &word, FUTEX_WAIT_BITSET_PRIVATE, 0, &until, nullptr, FUTEX_BITSET_MATCH_ANY));
}

}  // namespace

void Bell::ring() noexcept {
  if (rung_.exchange(1, std::memory_order_release) == 0) {
    ::syscall(SYS_futex, &rung_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
  }
}

Woken Bell::wait(const Deadline& deadline) noexcept {
  const timespec until = timespec_of(deadline.at());
  for (;;) {
    if (rung_.exchange(0, std::memory_order_acquire) != 0) return Woken::by_event;
    if (sleep_while_zero(rung_, until) == 0) continue;
    if (errno == ETIMEDOUT) return Woken::by_deadline;
    if (errno == EINTR) return Woken::by_signal;
  }
}

}  // namespace overlimit::redis::transport
