// How threads that share connections wait for each other.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <vector>

#include "overlimit/forks.hpp"
#include "platform/futex.hpp"
#include "redis/transport/waiting.hpp"

namespace overlimit::redis::transport {

using platform::EventCount;
using platform::WaiterSet;

/// Waits until one of these waiters is notified, or returns at once if any waiter was since `count`. Unlike a
/// wait for a condition variable, it ends when a signal may have come. Those who wait for one event, and
/// those who notify them, are either all threads or all fibers of one event loop.
[[nodiscard]] Woken wait_for(EventCount& event, WaiterSet waiters, std::uint32_t count,
                             const Deadline& deadline);
void notify(EventCount& event, WaiterSet waiters) noexcept;

/// Holds a mutex, releases it while its owner waits, and collects the waiters to notify. In a child that was
/// forked while the mutex was released it is never taken again, since another thread may have held it.
class UnlockableGuard {
 public:
  explicit UnlockableGuard(std::mutex& mutex) : lock_(mutex, std::defer_lock) { acquire(); }
  ~UnlockableGuard() {
    if (!lock_.owns_lock()) return;
    lock_.unlock();
    notify_collected();
  }

  /// Notifies these waiters once the mutex is free; holds the event, whose owner may be gone by then.
  void notify(const std::shared_ptr<EventCount>& event, WaiterSet waiters) {
    if (collected_.empty() || collected_.back().event != event) collected_.push_back({event, 0});
    collected_.back().waiters |= waiters;
  }
  /// The same, before all others.
  void notify_first(const std::shared_ptr<EventCount>& event, WaiterSet waiters) {
    first_ = {event, waiters};
  }

  /// Runs an action without the lock.
  template <class Action>
  void unlocked(const Action& action) {
    const Release during(*this);
    action();
  }
  /// The same for an action that waits: notifies first.
  template <class Action>
  void unlocked_wait(const Action& action) {
    const Release during(*this);
    notify_collected();
    action();
  }

  /// False in a child that was forked while the mutex was released.
  [[nodiscard]] bool owns_lock() const noexcept { return lock_.owns_lock(); }

 private:
  class Release : NonCopyable {
   public:
    explicit Release(UnlockableGuard& guard) : guard_(guard) { guard_.lock_.unlock(); }
    ~Release() {
      if (generation_ == fork_generation()) guard_.acquire();
    }

   private:
    UnlockableGuard& guard_;
    std::uint64_t generation_ = fork_generation();
  };

  struct Notification {
    std::shared_ptr<EventCount> event;
    WaiterSet waiters = 0;
  };

  /// Spins first: the owner mostly releases the mutex within a microsecond, and sleeping takes longer.
  void acquire() {
    constexpr int kAttempts = 50;
    for (int i = 0; i < kAttempts; ++i) {
      if (lock_.try_lock()) return;
    }
    lock_.lock();
  }

  void notify_collected() {
    if (first_.event != nullptr) transport::notify(*first_.event, first_.waiters);
    for (const Notification& each : collected_) transport::notify(*each.event, each.waiters);
    first_ = {};
    collected_.clear();
  }

  std::unique_lock<std::mutex> lock_;
  Notification first_;
  std::vector<Notification> collected_;
};

/// A task that one thread at a time runs for all, and not too often: kShortest after a useful run; after
/// useless ones in the constructor's pause, which doubles up to kLongest. Jittered. Thread-safe, without a
/// lock.
class RateLimitedTask {
 public:
  static constexpr std::chrono::milliseconds kShortest{100};
  static constexpr std::chrono::milliseconds kLongest{1'000};
  /// How often those who wait for a run of another thread check whether it has ended.
  static constexpr std::chrono::milliseconds kPollInterval{1};

  explicit RateLimitedTask(std::chrono::milliseconds pause_when_useless = 2 * kShortest)
      : first_pause_(pause_when_useless) {}

  /// The permit to run the task while it lives. False when another thread runs it or it is not due.
  class Permit : NonCopyable {
   public:
    explicit Permit(RateLimitedTask& task) : task_(task.try_begin() ? &task : nullptr) {}
    ~Permit() {
      if (task_ != nullptr) task_->end(useful_);
    }
    explicit operator bool() const noexcept { return task_ != nullptr; }
    void was_useful() noexcept { useful_ = true; }

   private:
    RateLimitedTask* const task_;
    bool useful_ = false;
  };

  [[nodiscard]] bool is_running() const noexcept { return running_.load(); }

 private:
  using Clock = Deadline::Clock;

  [[nodiscard]] bool try_begin() noexcept;
  void end(bool useful) noexcept;

  std::atomic<bool> running_{false};
  std::atomic<Clock::time_point> due_{Clock::time_point::min()};
  const std::chrono::milliseconds first_pause_;
  // After the last useless run, zero after a useful one. Only the thread with the permit uses it.
  std::chrono::milliseconds pause_{0};
};

}  // namespace overlimit::redis::transport
