#include "overlimit/forks.hpp"

#include <pthread.h>

#include <array>
#include <chrono>
#include <mutex>
#include <new>
#include <thread>

namespace overlimit {

/// All mutexes that fork() takes, linked in the order in which they were made.
class ForkSafeMutexes {
 public:
  void add(ForkSafeMutex& mutex) {
    const std::lock_guard lock(mutex_);
    mutex.previous_ = last_;
    (last_ == nullptr ? first_ : last_->next_) = &mutex;
    last_ = &mutex;
  }
  void remove(ForkSafeMutex& mutex) {
    const std::lock_guard lock(mutex_);
    (mutex.previous_ == nullptr ? first_ : mutex.previous_->next_) = mutex.next_;
    (mutex.next_ == nullptr ? last_ : mutex.next_->previous_) = mutex.previous_;
  }

  void lock_all() {
    mutex_.lock();
    for (ForkSafeMutex* each = first_; each != nullptr; each = each->next_) each->lock();
  }
  void unlock_all() {
    for (ForkSafeMutex* each = first_; each != nullptr; each = each->next_) each->unlock();
    mutex_.unlock();
  }

 private:
  std::mutex mutex_;
  ForkSafeMutex* first_ = nullptr;
  ForkSafeMutex* last_ = nullptr;
};

namespace {

void wait_for_none(std::atomic<int>& count) {
  for (int now = count.load(); now != 0; now = count.load()) count.wait(now);
}

/// Holds back the threads that arrive while a fork is under way, and counts those inside.
class Gate {
 public:
  void enter(std::atomic<int>& forks) {
    for (inside_.fetch_add(1); forks.load() != 0; inside_.fetch_add(1)) {
      leave();
      wait_for_none(forks);
    }
  }
  void leave() {
    if (inside_.fetch_sub(1) == 1) inside_.notify_all();
  }

  void wait_until_empty() { wait_for_none(inside_); }
  void wait_for_a_moment() {
    constexpr int kMostMilliseconds = 20;
    for (int i = 0; i < kMostMilliseconds && inside_.load() != 0; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  /// In a child: the threads that were inside are the parent's.
  void empty() { inside_.store(0); }

 private:
  std::atomic<int> inside_{0};
};

// Facts about the process. Nothing here is made at its first use: the flag that guards that could be left
// half-set in a child.
constinit std::atomic<int> forks{0};  // under way
constinit Gate outside;
constinit Gate mostly_outside;
constinit thread_local int depth = 0;  // of OutsideForks
constinit ForkSafeMutexes mutexes;

constinit std::array<std::atomic<void (*)() noexcept>, 4> calls_in_children{};

/// The mutexes last: nobody inside a gate may be kept from leaving it.
void before_fork() {
  forks.fetch_add(1);
  outside.wait_until_empty();
  mostly_outside.wait_for_a_moment();
  mutexes.lock_all();
}

void after_fork_in_parent() {
  mutexes.unlock_all();
  if (forks.fetch_sub(1) == 1) forks.notify_all();
}

void after_fork_in_child() {
  internal::forks_so_far.fetch_add(1, std::memory_order_relaxed);
  mutexes.unlock_all();
  outside.empty();
  mostly_outside.empty();
  forks.store(0);
  for (const auto& each : calls_in_children) {
    if (void (*const run)() noexcept = each.load()) run();
  }
}

bool register_handlers() {
  if (::pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child) != 0) throw std::bad_alloc();
  return true;
}

/// Registered when the library is loaded, before there is anything to protect.
[[maybe_unused]] const bool kRegistered =
    register_handlers();  // NOLINT(cert-err58-cpp): without it nothing works

}  // namespace

constinit std::atomic<std::uint64_t> internal::forks_so_far{0};

void call_in_children(void (*run)() noexcept) {
  for (auto& each : calls_in_children) {
    void (*none)() noexcept = nullptr;
    if (each.compare_exchange_strong(none, run)) return;
  }
  throw std::bad_alloc();
}

ForkSafeMutex::ForkSafeMutex() { mutexes.add(*this); }

void ForkSafeMutex::wait() {
  while (state_.exchange(State::awaited, std::memory_order_acquire) != State::free) {
    state_.wait(State::awaited, std::memory_order_relaxed);
  }
}

ForkSafeMutex::~ForkSafeMutex() { mutexes.remove(*this); }

OutsideForks::OutsideForks() noexcept {
  if (depth++ == 0) outside.enter(forks);
}

OutsideForks::~OutsideForks() {
  if (--depth == 0) outside.leave();
}

MostlyOutsideForks::MostlyOutsideForks() noexcept { mostly_outside.enter(forks); }

MostlyOutsideForks::~MostlyOutsideForks() { mostly_outside.leave(); }

}  // namespace overlimit
