// A lock that several threads hold in turn, between their waits.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "redis/transport/bell.hpp"
#include "redis/transport/fork_generation.hpp"

namespace overlimit::redis::transport {

/// Holds a mutex, and remembers whom to wake. In a child that was forked while the mutex was let go of it is
/// never taken again, since another thread may have held it.
class Turn {
 public:
  explicit Turn(std::mutex& mutex) : lock_(mutex) {}
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  ~Turn() {
    if (!lock_.owns_lock()) return;
    lock_.unlock();
    ring();
  }

  /// The bell, which must outlive this, is rung once nothing more urgent is to be done: at the end, or before
  /// a wait.
  void wake(Bell& bell) { bells_.push_back(&bell); }
  void wake_first(Bell& bell) { bells_.insert(bells_.begin(), &bell); }

  /// Runs an action without the lock.
  template <class Action>
  void without(const Action& action) {
    const Break during(*this);
    action();
  }
  /// The same for an action that waits.
  template <class Action>
  void waiting(const Action& action) {
    const Break during(*this);
    ring();
    action();
  }

  /// False in a child that was forked meanwhile.
  [[nodiscard]] bool is_held() const noexcept { return lock_.owns_lock(); }

 private:
  class Break {
   public:
    explicit Break(Turn& turn) : turn_(turn) { turn_.lock_.unlock(); }
    Break(const Break&) = delete;
    Break& operator=(const Break&) = delete;
    ~Break() {
      if (generation_ == fork_generation()) turn_.lock_.lock();
    }

   private:
    Turn& turn_;
    std::uint64_t generation_ = fork_generation();
  };

  void ring() {
    for (Bell* bell : bells_) bell->ring();
    bells_.clear();
  }

  std::unique_lock<std::mutex> lock_;
  std::vector<Bell*> bells_;
};

}  // namespace overlimit::redis::transport
