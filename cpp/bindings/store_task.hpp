// A question to a store, apart from who waits for its answer: a thread, or a task of an event loop.
#pragma once

#include <Python.h>

#include <memory>
#include <span>

#include "overlimit/errors.hpp"
#include "overlimit/non_copyable.hpp"
#include "overlimit/store.hpp"
#include "store_calls.hpp"

namespace overlimit::python {

/// A call that was prepared from its arguments: it is asked once, and then answered or not. Everything but
/// ask() holds the GIL. It keeps alive what it needs.
class StoreTask : NonCopyable {
 public:
  virtual ~StoreTask() = default;
  /// Those who share the store that is asked, and count the call; none: it is not counted.
  [[nodiscard]] virtual std::span<LimiterState* const> limiters() const = 0;
  [[nodiscard]] virtual Store& store() const { return *limiters().front()->store; }
  /// Whether there is nothing to ask, so that it can be answered at once.
  [[nodiscard]] virtual bool is_nothing() const { return false; }
  /// Whether it takes long, so that others run Python meanwhile even if the store need not wait.
  [[nodiscard]] virtual bool is_long() const { return false; }
  /// Whether the store decides without asking anybody; then there is no more to do.
  virtual bool decide_here(Store& /*store*/) { return false; }
  /// Touches nothing of Python but by `interrupted`. Runs again if it throws WouldWait.
  virtual void ask(Store& store, const Interrupted& interrupted) = 0;
  virtual Object answer() = 0;
  /// To be called while the error is handled, which it throws again unless there is an answer without it.
  virtual Object answer_without(const StoreError& /*error*/) { throw; }
};

/// Has a task done by this thread, which waits for it. In store_calls.cpp.
Object perform(StoreTask& task);

/// A new reference to a PendingCall.
Object pending(std::unique_ptr<StoreTask> task);
/// The answer of a task that need not wait, or else a PendingCall.
Object answer_or_pending(std::unique_ptr<StoreTask> task);

}  // namespace overlimit::python
