// Calls that wait, on an event loop: each is a fiber, which is suspended where a thread would be blocked.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>

#include "overlimit/non_copyable.hpp"

namespace overlimit {

/// What runs on one event loop. The loop has to watch one descriptor, and to call run() when it is readable.
/// What runs as a fiber touches nothing of Python. Not thread-safe: one thread at a time. A forked child must
/// only destroy it, which ends nothing of its parent.
class Fibers : NonCopyable {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  /// What ended a wait. by_signal: interrupt() was called, perhaps.
  enum class Woken : std::uint8_t { by_event, by_deadline, by_signal };
  class Task;

  /// Throws std::system_error when the system has no descriptors left.
  Fibers();
  /// Interrupts all that are not done, and has them end at once.
  ~Fibers();

  /// Readable when run() has something to do.
  [[nodiscard]] int fd() const noexcept;
  /// Runs an action, which throws nothing, until it waits for the first time or is done. The task is valid
  /// until the action has returned. Throws std::bad_alloc.
  Task& start(std::function<void()> action);
  /// Resumes all that can go on.
  void run();
  /// Whether run() is to be called once the event loop has done what it is at, whatever the descriptor says.
  [[nodiscard]] bool has_yielded() const noexcept;
  /// Ends the wait of a task, by_signal, at the next run(), and any later wait at once.
  void interrupt(Task& task);

  /// Those of the fiber that runs in this thread; nullptr: none does.
  [[nodiscard]] static Fibers* current() noexcept;
  /// The time of the steady clock, by which deadlines are meant. On a fiber, without the time for which the
  /// event loop was kept from run() by something else: nobody could have looked for an answer meanwhile.
  [[nodiscard]] static TimePoint now() noexcept;
  /// Whether interrupt() was called for it. To be called on a fiber, as all below.
  [[nodiscard]] bool is_interrupted() const noexcept;

  /// Waits for one of the poll(2) `events` of `fd` or its failure, and may end without either; for -1 for the
  /// deadline alone. Throws std::bad_alloc.
  [[nodiscard]] Woken wait(int fd, short events, TimePoint until);
  /// Waits until notify() of this event is called for one of these waiters. They all are fibers of this loop,
  /// so nothing can happen between a look at what is waited for and the wait.
  [[nodiscard]] Woken wait(const void* event, std::uint32_t waiters, TimePoint until);
  void notify(const void* event, std::uint32_t waiters) noexcept;
  /// Waits until the next run(): until all that the event loop does at present has been done.
  void yield();
  [[nodiscard]] std::uint64_t turn() const noexcept;
  /// Runs an action on the stack of the event loop, as code needs it that a fiber must not run, such as
  /// Python's. Throws what it throws.
  void run_outside(const std::function<void()>& action);

  /// What this loop has one of, made at the first use and destroyed with it.
  template <class T>
  [[nodiscard]] T& own() {
    std::shared_ptr<void>& held = slot(&kKeyOf<T>);
    if (!held) held = std::make_shared<T>();
    return *static_cast<T*>(held.get());
  }

 private:
  struct Impl;

  template <class T>
  static constexpr char kKeyOf = 0;
  [[nodiscard]] std::shared_ptr<void>& slot(const void* key);

  std::unique_ptr<Impl> impl_;
};

}  // namespace overlimit
