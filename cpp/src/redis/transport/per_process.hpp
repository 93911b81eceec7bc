// What belongs to one process: a forked child makes its own, and closes the descriptors of its parent.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "overlimit/fibers.hpp"
#include "overlimit/forks.hpp"

namespace overlimit::redis::transport {

/// A descriptor that a forked child does not keep. Closed with close(2) alone, by the process that opened it.
class OwnDescriptor {
 public:
  OwnDescriptor() noexcept = default;
  /// Owns what `open` returns: a descriptor, or a negative number, which errno explains.
  template <class Open>
  [[nodiscard]] static OwnDescriptor opened(const Open& open) {
    const OutsideForks outside;
    auto descriptor = OwnDescriptor();
    descriptor.fd_ = open();
    if (descriptor.fd_ >= 0) descriptor.list();
    return descriptor;
  }
  OwnDescriptor(OwnDescriptor&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)), generation_(other.generation_) {}
  OwnDescriptor& operator=(OwnDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    std::swap(generation_, other.generation_);
    return *this;
  }
  ~OwnDescriptor();
  /// Negative when there is none.
  [[nodiscard]] int fd() const noexcept { return fd_; }

 private:
  /// Has children close it at once. Called with no fork() since it was opened.
  void list() const;

  int fd_ = -1;
  std::uint64_t generation_ = fork_generation();
};

/// Holds an object of one process; a forked child makes its own. It neither uses nor destroys that of its
/// parent, whose locks may have been held by threads that the child does not have. Thread-safe without a
/// lock. Destroys nothing unless it is reset.
template <class T>
class ProcessSlot {
 public:
  template <class Make>
  [[nodiscard]] T& get(const Make& make) {
    Held* current = held_.load(std::memory_order_acquire);
    if (current != nullptr && current->generation == fork_generation()) return *current->value;
    auto fresh = std::make_unique<Held>(Held{fork_generation(), make()});
    if (!held_.compare_exchange_strong(current, fresh.get())) return *current->value;
    return *fresh.release()->value;
  }  // NOLINT(clang-analyzer-cplusplus.NewDeleteLeaks): held_ owns it now

  /// Destroys the object of this process. Must not run during a use.
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

/// An object that each process makes at its first use. Thread-safe, but for the destructor.
template <class T>
class PerProcess {
 public:
  using Make = std::function<std::unique_ptr<T>()>;

  explicit PerProcess(Make make) : make_(std::move(make)) {}
  ~PerProcess() { slot_.reset(); }
  T& operator*() { return slot_.get(make_); }

 private:
  const Make make_;
  ProcessSlot<T> slot_;
};

/// Keeps a shared object alive, for ever in a child that was forked meanwhile.
template <class T>
class KeptAlive : NonCopyable {
 public:
  KeptAlive& operator=(std::shared_ptr<T> thing) {
    thing_ = std::move(thing);
    return *this;
  }
  ~KeptAlive() {
    if (generation_ == fork_generation()) return;
    // NOLINTNEXTLINE(bugprone-unhandled-exception-at-new): without memory nothing helps
    [[maybe_unused]] const auto* leaked = new std::shared_ptr<T>(std::move(thing_));
  }  // NOLINT(clang-analyzer-cplusplus.NewDeleteLeaks): meant

  T* operator->() const { return thing_.get(); }
  T& operator*() const { return *thing_; }

 private:
  std::shared_ptr<T> thing_;
  std::uint64_t generation_ = fork_generation();
};

/// What there is one of per key, as long as somebody uses it. Thread-safe.
template <class Key, class Thing>
class Registry {
 public:
  template <class Make>
  [[nodiscard]] std::shared_ptr<Thing> of(const Key& key, const Make& make) {
    const std::lock_guard lock(mutex_);
    std::erase_if(things_, [](const auto& each) { return each.second.expired(); });
    for (const auto& [known, held] : things_) {
      if (auto thing = held.lock(); thing && known == key) return thing;
    }
    std::shared_ptr<Thing> thing = make();
    things_.emplace_back(key, thing);
    return thing;
  }

 private:
  std::mutex mutex_;
  std::vector<std::pair<Key, std::weak_ptr<Thing>>> things_;  // guarded by mutex_
};

template <class Key, class Thing>
inline constinit ProcessSlot<Registry<Key, Thing>> registry_slot;

/// The registry of the event loop whose fiber runs in this thread, else that of all threads of this process,
/// which is never destroyed: stores may be used while the process ends.
template <class Key, class Thing>
[[nodiscard]] Registry<Key, Thing>& registry_of_caller() {
  if (Fibers* const fibers = Fibers::current()) return fibers->own<Registry<Key, Thing>>();
  return registry_slot<Key, Thing>.get([] { return std::make_unique<Registry<Key, Thing>>(); });
}

}  // namespace overlimit::redis::transport
