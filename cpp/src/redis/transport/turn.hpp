// A lock that several threads hold in turn, between their waits.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "overlimit/forks.hpp"
#include "redis/transport/belfry.hpp"

namespace overlimit::redis::transport {

/// Holds a mutex, and remembers whom to wake. In a child that was forked while the mutex was let go of it is
/// never taken again, since another thread may have held it.
class Turn {
 public:
  explicit Turn(std::mutex& mutex) : lock_(mutex, std::defer_lock) { acquire(); }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  ~Turn() {
    if (!lock_.owns_lock()) return;
    lock_.unlock();
    ring();
  }

  /// The bells are rung once nothing more urgent is to be done: at the end, or before a wait. The mutex is
  /// free by then, and whoever owned the belfry may be gone: so it is kept until it has been rung.
  void wake(const std::shared_ptr<Belfry>& belfry, Belfry::Bells bells) {
    if (peals_.empty() || peals_.back().belfry != belfry) peals_.push_back({belfry, 0});
    peals_.back().bells |= bells;
  }
  /// Before the others.
  void wake_first(const std::shared_ptr<Belfry>& belfry, Belfry::Bells bells) { first_ = {belfry, bells}; }

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
      if (generation_ == fork_generation()) turn_.acquire();
    }

   private:
    Turn& turn_;
    std::uint64_t generation_ = fork_generation();
  };

  struct Peal {
    std::shared_ptr<Belfry> belfry;
    Belfry::Bells bells = 0;
  };

  /// Whoever holds it will let go of it within a microsecond, mostly: sleeping takes longer.
  void acquire() {
    constexpr int kAttempts = 50;
    for (int i = 0; i < kAttempts; ++i) {
      if (lock_.try_lock()) return;
    }
    lock_.lock();
  }

  void ring() {
    if (first_.belfry != nullptr) first_.belfry->ring(first_.bells);
    for (const Peal& peal : peals_) peal.belfry->ring(peal.bells);
    first_ = {};
    peals_.clear();
  }

  std::unique_lock<std::mutex> lock_;
  Peal first_;
  std::vector<Peal> peals_;
};

}  // namespace overlimit::redis::transport
