#include "table/shard_mutex.hpp"

#include <sstream>

#include "platform/futex.hpp"

namespace overlimit::table {
namespace {

using Clock = MutexWait::Clock;

// After a sleep of this long a waiter asks whether the holder still lives. It is also how long a waiter may
// sleep that another one, who died, should have woken.
constexpr std::chrono::milliseconds kLongestSleep{5};
constexpr int kMomentsToSpin = 40;

[[noreturn]] void throw_timeout(Duration timeout) {
  std::ostringstream what;
  what << "another process is in the middle of a call on the shared memory and does not go on (timeout="
       << timeout.seconds() << "): it may be stopped, or the machine may have no time for it";
  throw StoreTimeout(what.str());
}

}  // namespace

bool ShardMutex::try_word_for_a_moment() {
  for (int i = 0; i < kMomentsToSpin; ++i) {
    platform::pause_briefly();
    if (word_->load(std::memory_order_relaxed) == 0 && try_word()) return true;
  }
  return false;
}

void ShardMutex::wait_for_word(MutexWait& wait) {
  if (try_word_for_a_moment()) return;
  if (wait.interrupted().target<DontWait>() != nullptr) throw WouldWait();
  if (const auto* const caller = wait.interrupted().target<ComeBack>())
    return come_back(*caller, wait.timeout());
  const Clock::time_point deadline = wait.deadline();
  for (;;) {
    const std::uint32_t seen = word_->load(std::memory_order_relaxed);
    if (try_to_take(seen)) return;
    if (Clock::now() >= deadline) throw_timeout(wait.timeout());
    sleep_while(seen | kAwaited, std::min(deadline, Clock::now() + kLongestSleep));
    if (wait.interrupted() && wait.interrupted()()) throw WaitInterrupted();
  }
}

void ShardMutex::come_back(const ComeBack& caller, Duration timeout) {
  if (try_to_take(word_->load(std::memory_order_relaxed))) return;
  if (Clock::now() >= caller.until) throw_timeout(timeout);
  throw WouldWait();
}

/// Takes it if it is free or left; else, and since others may wait still, says that somebody waits.
bool ShardMutex::try_to_take(std::uint32_t seen) {
  const std::uint32_t holder = seen & ~kAwaited;
  const bool is_left = holder == 0 || holders_->has_ended(holder);
  const std::uint32_t next = (is_left ? holders_->own() : holder) | kAwaited;
  return word_->compare_exchange_strong(seen, next, std::memory_order_acquire, std::memory_order_relaxed) &&
         is_left;
}

void ShardMutex::sleep_while(std::uint32_t seen, Clock::time_point until) {
  const Clock::duration left = until - Clock::now();
  if (left > Clock::duration::zero()) platform::sleep_while(*word_, seen, left);
}

void ShardMutex::wake_one() { platform::wake_one(*word_); }

}  // namespace overlimit::table
