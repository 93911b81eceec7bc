// What fork() means to the library: the only place that watches forks (docs/forks.md).
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

namespace overlimit {

namespace internal {
/// Written by the fork handler alone.
extern std::atomic<std::uint64_t> forks_so_far;
}  // namespace internal

/// How many forks lie between this process and the one that loaded the library: another number in a child
/// than in its parent. A single load, cheap enough for every call.
[[nodiscard]] inline std::uint64_t fork_generation() noexcept {
  return internal::forks_so_far.load(std::memory_order_relaxed);
}

/// Has fork() call this in every child, at once, by its only thread, after all ForkSafeMutexes are free
/// again. It must not allocate. To be called once for each function, of which there may be four.
void call_in_children(void (*run)() noexcept);

/// A mutex that fork() waits for and holds, so that a child finds it free, and what it guards consistent.
///
/// fork() takes all of them in the order in which they were made. Whoever takes several does so in that order
/// too, and nobody who holds one forks, waits for anything else, or enters OutsideForks.
class ForkSafeMutex {
 public:
  ForkSafeMutex();
  ForkSafeMutex(const ForkSafeMutex&) = delete;
  ForkSafeMutex& operator=(const ForkSafeMutex&) = delete;
  ~ForkSafeMutex();

  void lock() { mutex_.lock(); }
  [[nodiscard]] bool try_lock() { return mutex_.try_lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  friend class ForkSafeMutexes;

  std::mutex mutex_;
  ForkSafeMutex* previous_ = nullptr;
  ForkSafeMutex* next_ = nullptr;
};

/// For calls of other libraries that have locks of their own, such as OpenSSL, which nobody would ever
/// release in a child if another thread held them at the fork. Whoever calls them makes one of these around
/// the call; fork() waits until there is none, and those who come meanwhile wait for it. So nothing in its
/// scope may wait or fork. Scopes may be nested. Thread-safe.
class OutsideForks {
 public:
  OutsideForks() noexcept;
  OutsideForks(const OutsideForks&) = delete;
  OutsideForks& operator=(const OutsideForks&) = delete;
  ~OutsideForks();
};

/// The same for calls that may wait for the network, as those of the resolver do, and hold locks only before
/// and after: fork() waits 20 ms for them at most. Not nested.
class MostlyOutsideForks {
 public:
  MostlyOutsideForks() noexcept;
  MostlyOutsideForks(const MostlyOutsideForks&) = delete;
  MostlyOutsideForks& operator=(const MostlyOutsideForks&) = delete;
  ~MostlyOutsideForks();
};

}  // namespace overlimit
