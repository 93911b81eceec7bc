// What fork() means to the library: the only place that watches forks (docs/forks.md).
#pragma once

#include <atomic>
#include <cstdint>

#include "overlimit/non_copyable.hpp"

namespace overlimit {

namespace internal {
/// Written by the fork handler alone.
extern std::atomic<std::uint64_t> forks_so_far;
}  // namespace internal

/// How many forks lie between this process and the one that loaded the library. A single load.
[[nodiscard]] inline std::uint64_t fork_generation() noexcept {
  return internal::forks_so_far.load(std::memory_order_relaxed);
}

/// Has fork() call this in every child, at once, by its only thread, after all ForkSafeMutexes are free
/// again. It must not allocate. To be called once for each function, of which there may be four.
void call_in_children(void (*run)() noexcept);

/// A mutex that fork() waits for and holds, so that a child finds it free, and what it guards consistent.
/// fork() takes all in the order in which they were made, as do those who take several. Nobody who holds one
/// forks, waits for anything else, or enters OutsideForks.
class ForkSafeMutex {
 public:
  ForkSafeMutex();
  ~ForkSafeMutex();
  void lock() {
    if (!try_lock()) [[unlikely]]
      wait();
  }
  [[nodiscard]] bool try_lock() {
    State free = State::free;
    return state_.compare_exchange_strong(free, State::held, std::memory_order_acquire,
                                          std::memory_order_relaxed);
  }
  void unlock() {
    if (state_.exchange(State::free, std::memory_order_release) == State::awaited) [[unlikely]]
      state_.notify_one();
  }

 private:
  friend class ForkSafeMutexes;

  /// Awaited: it is held, and somebody may sleep until it is free. (U. Drepper, Futexes Are Tricky, 2011.)
  enum class State : std::uint32_t { free, held, awaited };

  [[gnu::noinline]] void wait();

  std::atomic<State> state_{State::free};
  ForkSafeMutex* previous_ = nullptr;
  ForkSafeMutex* next_ = nullptr;
};

/// To be made around calls of libraries with locks of their own, such as OpenSSL: fork() waits until there is
/// none, and newcomers wait for it. So nothing in its scope may wait or fork. Nests. Thread-safe.
class OutsideForks : NonCopyable {
 public:
  OutsideForks() noexcept;
  ~OutsideForks();
};

/// The same for calls that may wait for the network, as those of the resolver do, and hold locks only before
/// and after: fork() waits 20 ms for them at most. Not nested.
class MostlyOutsideForks : NonCopyable {
 public:
  MostlyOutsideForks() noexcept;
  ~MostlyOutsideForks();
};

}  // namespace overlimit
