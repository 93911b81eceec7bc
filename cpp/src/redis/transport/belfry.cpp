#include "redis/transport/belfry.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <climits>
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

}  // namespace

void Belfry::ring(Bells bells) noexcept {
  rung_.fetch_add(1, std::memory_order_release);
  ::syscall(SYS_futex, &rung_, FUTEX_WAKE_BITSET_PRIVATE, INT_MAX, nullptr, nullptr, bells);
}

/// The steady clock is CLOCK_MONOTONIC, which this operation counts by.
Woken Belfry::wait(Bells bells, std::uint32_t since, const Deadline& deadline) noexcept {
  const Deadline end = end_of_wait(deadline);
  const timespec until = timespec_of(end.at());
  if (::syscall(SYS_futex, &rung_, FUTEX_WAIT_BITSET_PRIVATE, since, &until, nullptr, bells) == 0) {
    return Woken::by_event;
  }
  if (errno == ETIMEDOUT) return at_end_of_wait(end, deadline);
  return errno == EINTR ? Woken::by_signal : Woken::by_event;
}

}  // namespace overlimit::redis::transport
