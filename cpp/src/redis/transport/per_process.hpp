// Things of which every process has its own.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "overlimit/forks.hpp"

namespace overlimit::redis::transport {

/// Holds what a process has made; another process makes another. A child of fork() never touches nor destroys
/// its parent's, whose locks may have been held by threads that the child doesn't have. Thread-safe, and
/// itself without a lock. Destroys nothing by itself.
template <class T>
class ProcessSlot {
 public:
  constexpr ProcessSlot() = default;
  ProcessSlot(const ProcessSlot&) = delete;
  ProcessSlot& operator=(const ProcessSlot&) = delete;

  /// Of this process; made by make() for the first who asks.
  template <class Make>
  [[nodiscard]] T& get(const Make& make) {
    Held* current = held_.load(std::memory_order_acquire);
    if (current != nullptr && current->generation == fork_generation()) return *current->value;
    auto fresh = std::make_unique<Held>(Held{fork_generation(), make()});
    if (!held_.compare_exchange_strong(current, fresh.get())) return *current->value;
    return *fresh.release()->value;
  }

  /// Destroys what this process has made; not during a use.
  void reset() {
    const Held* held = held_.exchange(nullptr);
    if (held != nullptr && held->generation == fork_generation()) delete held;
  }

 private:
  struct Held {
    std::uint64_t generation;
    std::unique_ptr<T> value;
  };

  std::atomic<Held*> held_{nullptr};  // owned, unless it is of a parent process
};

/// Makes a thing at its first use in a process. Thread-safe; only the destructor must not run during a use.
template <class T>
class PerProcess {
 public:
  using Make = std::function<std::unique_ptr<T>()>;

  explicit PerProcess(Make make) : make_(std::move(make)) {}
  PerProcess(const PerProcess&) = delete;
  PerProcess& operator=(const PerProcess&) = delete;
  ~PerProcess() { slot_.reset(); }

  T& operator*() { return slot_.get(make_); }
  T* operator->() { return &slot_.get(make_); }

 private:
  const Make make_;
  ProcessSlot<T> slot_;
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
