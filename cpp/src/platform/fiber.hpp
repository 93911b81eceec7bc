// Functions that can be suspended in the middle, whatever they have called by then.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "overlimit/non_copyable.hpp"
#include "platform/virtual_memory.hpp"

namespace overlimit::platform {

/// A function with a stack of its own. It runs in whichever thread resumes it, until it suspends itself or
/// returns. It must throw nothing, and must not run code that looks at the bounds of its thread's stack, as
/// Python does. Not thread-safe.
class Fiber : NonCopyable {
 public:
  /// Memory for the stack of a fiber, and below it a page that nobody can touch.
  class Stack {
   public:
    static constexpr std::size_t kBytes = std::size_t{256} << 10;

    /// Throws std::bad_alloc.
    Stack();
    /// The end where it begins to grow, downwards.
    [[nodiscard]] char* top() const noexcept {
      return reinterpret_cast<char*>(pages_.get() + pages_.get_deleter().bytes);
    }

   private:
    Pages pages_;
  };

  /// Does not run it yet.
  Fiber(std::unique_ptr<Stack> stack, std::function<void()> run);
  /// One that has not ended must not be destroyed.
  ~Fiber();

  /// Runs it until it suspends itself or returns. Not to be called on a fiber.
  void resume();
  [[nodiscard]] bool has_ended() const noexcept { return has_ended_; }
  /// The stack of one that has ended, to be used again.
  [[nodiscard]] std::unique_ptr<Stack> release_stack() noexcept;

  /// The fiber that runs in this thread; nullptr: none does.
  [[nodiscard]] static Fiber* current() noexcept;
  /// Goes on after resume(), and returns when this fiber is resumed. To be called on it.
  void suspend();

  /// What the first function on its stack calls.
  void run_to_end() noexcept;

 private:
  struct Context;

  std::unique_ptr<Stack> stack_;
  std::function<void()> run_;
  std::unique_ptr<Context> context_;
  bool has_ended_ = false;
};

}  // namespace overlimit::platform
