// Sleeping until a word in memory changes: one that several processes share, or that of an event count.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace overlimit::platform {

/// Sleeps while the word is `seen`, for this long at most. May end without a reason.
void sleep_while(std::atomic<std::uint32_t>& word, std::uint32_t seen,
                 std::chrono::nanoseconds longest) noexcept;
/// To be called after the word was changed: ends the sleep of one of those who sleep, if there are any.
void wake_one(std::atomic<std::uint32_t>& word) noexcept;

/// Some of the waiters of an EventCount, one bit each.
using WaiterSet = std::uint32_t;

/// How threads wait for each other with a deadline, without a lock around what they wait for: an event with
/// up to 32 waiters, any set of which is woken at once. A waiter reads count() before it checks whether there
/// is anything to wait for, and may be woken without a reason. Thread-safe.
class EventCount {
 public:
  static constexpr unsigned kMaxWaiters = 32;
  /// What ended a wait; a signal ends those on Linux only.
  enum class End : std::uint8_t { notified, timed_out, interrupted };

  [[nodiscard]] std::uint32_t count() const noexcept { return count_.load(std::memory_order_acquire); }
  void notify(WaiterSet waiters) noexcept;
  /// Waits until one of these waiters is notified, or returns at once if any waiter was since `count`.
  [[nodiscard]] End wait(WaiterSet waiters, std::uint32_t count,
                         std::chrono::steady_clock::time_point until) noexcept;

 private:
  std::atomic<std::uint32_t> count_{0};
#if !defined(__linux__) || defined(OVERLIMIT_PORTABLE)
  std::mutex mutex_;  // guards changes of the count
  std::condition_variable changed_;
#endif
};

}  // namespace overlimit::platform
