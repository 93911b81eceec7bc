// Things of which every process has its own.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "redis/transport/fork_generation.hpp"

namespace overlimit::redis::transport {

/// Makes a thing at its first use in a process. A child of fork() makes another; it never touches nor
/// destroys its parent's, whose locks may have been held by threads that the child doesn't have. Thread-safe;
/// only the destructor must not run during a use.
template <class T>
class PerProcess {
 public:
  using Make = std::function<std::unique_ptr<T>()>;

  explicit PerProcess(Make make) : make_(std::move(make)) { watch_forks(); }
  PerProcess(const PerProcess&) = delete;
  PerProcess& operator=(const PerProcess&) = delete;
  ~PerProcess() {
    const Held* held = held_.load();
    if (held != nullptr && held->generation == fork_generation()) delete held;
  }

  T& operator*() { return *held().value; }
  T* operator->() { return held().value.get(); }

 private:
  struct Held {
    std::uint64_t generation;
    std::unique_ptr<T> value;
  };

  Held& held() {
    Held* current = held_.load(std::memory_order_acquire);
    if (current != nullptr && current->generation == fork_generation()) return *current;
    auto fresh = std::make_unique<Held>(Held{fork_generation(), make_()});
    if (!held_.compare_exchange_strong(current, fresh.get())) return *current;
    return *fresh.release();
  }

  const Make make_;
  std::atomic<Held*> held_{nullptr};  // owned, unless it is of a parent process
};

/// Keeps a shared thing alive; in a child that was forked meanwhile it is let go of without being destroyed.
template <class T>
class Kept {
 public:
  Kept() = default;
  Kept(const Kept&) = delete;
  Kept& operator=(const Kept&) = delete;
  Kept& operator=(std::shared_ptr<T> thing) {
    thing_ = std::move(thing);
    return *this;
  }
  ~Kept() {
    if (generation_ == fork_generation()) return;
    [[maybe_unused]] const auto* leaked = new std::shared_ptr<T>(std::move(thing_));
  }  // NOLINT(clang-analyzer-cplusplus.NewDeleteLeaks): meant

  T* operator->() const { return thing_.get(); }
  T& operator*() const { return *thing_; }

 private:
  std::shared_ptr<T> thing_;
  std::uint64_t generation_ = fork_generation();
};

}  // namespace overlimit::redis::transport
