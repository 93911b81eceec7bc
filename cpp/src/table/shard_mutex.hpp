// The lock of a shard: a mutex of this process, or a word in memory that several processes share.
#pragma once

#include <atomic>
#include <chrono>
#include <optional>

#include "overlimit/forks.hpp"
#include "overlimit/store.hpp"
#include "platform/processor.hpp"

namespace overlimit::table {

/// Who holds shared locks. A holder is a number in [1, 2^31) that no two processes ever have.
class Holders {
 public:
  virtual ~Holders() = default;
  /// This process, under which all its threads hold locks.
  [[nodiscard]] std::uint32_t own() const { return own_; }
  /// Whether the process of this number has ended. False for this process.
  [[nodiscard]] virtual bool has_ended(std::uint32_t holder) const = 0;

 protected:
  std::uint32_t own_ = 0;
};

/// How long one call waits for shared locks in all. The time begins with its first wait.
class MutexWait {
 public:
  using Clock = std::chrono::steady_clock;

  MutexWait(Duration timeout, const Interrupted& interrupted)
      : timeout_(timeout), interrupted_(interrupted) {}
  MutexWait(Duration, Interrupted&&) = delete;
  [[nodiscard]] Clock::time_point deadline() {
    if (!deadline_) deadline_ = Clock::now() + std::chrono::microseconds(timeout_.micros());
    return *deadline_;
  }
  [[nodiscard]] Duration timeout() const { return timeout_; }
  [[nodiscard]] const Interrupted& interrupted() const { return interrupted_; }

 private:
  Duration timeout_;
  const Interrupted& interrupted_;
  std::optional<Clock::time_point> deadline_;
};

class ShardMutex {
 public:
  /// A mutex of this process, which waits for as long as it takes.
  ShardMutex() { mutex_.emplace(); }
  /// A word that all processes see; 0: nobody holds it. Both outlive the lock.
  ShardMutex(std::atomic<std::uint32_t>& word, const Holders& holders) : word_(&word), holders_(&holders) {}

  /// Takes over a shared lock whose holder has ended. Throws StoreTimeout, WaitInterrupted or WouldWait.
  void lock(MutexWait& wait) {
    if (mutex_) return mutex_->lock();
    if (!try_word()) wait_for_word(wait);
  }
  void prefetch() const {
    if (mutex_) return platform::prefetch_for_writing(&mutex_);
    platform::prefetch_for_writing(word_);
  }
  [[nodiscard]] bool try_lock() { return mutex_ ? mutex_->try_lock() : try_word(); }
  void unlock() {
    if (mutex_) return mutex_->unlock();
    if ((word_->exchange(0, std::memory_order_release) & kAwaited) != 0) wake_one();
  }

 private:
  static constexpr std::uint32_t kAwaited = std::uint32_t{1} << 31;  // somebody sleeps until it is free

  bool try_word() {
    std::uint32_t free = 0;
    return word_->compare_exchange_strong(free, holders_->own(), std::memory_order_acquire,
                                          std::memory_order_relaxed);
  }
  bool try_word_for_a_moment();
  [[gnu::noinline]] void wait_for_word(MutexWait& wait);
  void come_back(const ComeBack& caller, Duration timeout);
  bool try_to_take(std::uint32_t seen);
  void sleep_while(std::uint32_t seen, MutexWait::Clock::time_point until);
  [[gnu::noinline]] void wake_one();

  std::optional<ForkSafeMutex> mutex_;
  std::atomic<std::uint32_t>* word_ = nullptr;
  const Holders* holders_ = nullptr;
};

}  // namespace overlimit::table
