// overlimit._core.Limiter, the base of overlimit.Limiter, on the C API.
#pragma once

#include <Python.h>

#include <atomic>
#include <memory>
#include <optional>
#include <span>

#include "clock.hpp"
#include "functions.hpp"
#include "on_error.hpp"
#include "overlimit/forks.hpp"
#include "overlimit/store.hpp"
#include "stats.hpp"

namespace overlimit::python {

/// What a limiter consists of. After __init__ only the policy, by update(), and the statistics change.
struct LimiterState {
  static constexpr std::uint64_t kNotCalled = ~std::uint64_t{0};

  const PolicyIdentity identity;
  Object policy;  ///< of present_policy()
  Object store_object;
  std::shared_ptr<Store> store;  ///< the one inside the store object
  ClockSource clock;
  Object on_decision;  ///< called with each decision, or None
  OnError on_error;
  PyObject* object;                                 ///< the limiter itself, borrowed
  std::uint64_t made_after;                         ///< the number of forks before it was made
  Shared<std::uint64_t> called_after = kNotCalled;  ///< the number of forks before its last call
  Shared<bool> is_compared = false;                 ///< with those of its name, since it has these limits
  Stats stats{};
  Shared<CounterSlot*> counters_of_store = nullptr;  ///< for metrics; nullptr: of a store that cannot fail
  Shared<bool> is_cut_off =
      false;  ///< a call to the store failed, was not raised, and none was answered since
  Shared<std::uint64_t> answers_before = 0;  ///< of the store, when that was

  /// The policy for a call, which keeps it whatever update() does meanwhile.
  [[nodiscard]] Object present_policy() const {
    const ObjectLock lock(object);
    return Object::borrow(policy.get());
  }
  /// The same as long as the GIL is held and nothing of Python runs; without a GIL, as long as it lives.
#ifdef Py_GIL_DISABLED
  [[nodiscard]] Object policy_for_now() const { return present_policy(); }
#else
  [[nodiscard]] const Object& policy_for_now() const { return policy; }
#endif
};

/// Nothing until its __init__ is done, which another thread may be calling.
struct LimiterObject {
  PyObject_HEAD std::atomic<LimiterState*> state;
};

/// Adds a method to the type. PythonError.
void add_method(PyMethodDef& method);

[[noreturn]] void raise_uninitialised();
/// For methods, whose object Python has checked. RuntimeError for a limiter that was not initialised, as
/// PythonError.
inline LimiterState& state_of_self(PyObject* self) {
  LimiterState* const state = reinterpret_cast<LimiterObject*>(self)->state.load(std::memory_order_acquire);
  if (state == nullptr) [[unlikely]]
    raise_uninitialised();
  return *state;
}

/// RuntimeError for a limiter that was not initialised, TypeError for another object, as PythonError.
LimiterState& state_of(PyObject* limiter);
template <>
struct From<LimiterState&> {
  static LimiterState& get(PyObject* given) { return state_of(given); }
};
/// Whether it is a limiter, initialised or not.
[[nodiscard]] bool is_limiter(PyObject* object);

void notice_first_call(LimiterState& limiter, std::uint64_t forks);

/// To be called before each call to the store. At a limiter's first call, and its first after an update, it
/// warns of limiters that share its counts under other limits; after a fork its statistics start anew, and it
/// warns, once per process, if its state is in memory.
inline void notice_call(LimiterState& limiter) {
  const std::uint64_t now = fork_generation();
  if (limiter.called_after != now || !limiter.is_compared) [[unlikely]]
    notice_first_call(limiter, now);
}

/// A call of these charges by the limiter's clock, which outlives it. PythonError from a clock of Python.
class TimedCall {
 public:
  TimedCall(const LimiterState& limiter, std::span<const Charge> charges) : call_{charges} {
    limiter.clock.set_clock(call_, beforehand_);
  }
  TimedCall(const TimedCall&) = delete;
  TimedCall& operator=(const TimedCall&) = delete;
  Call& operator*() { return call_; }

 private:
  std::optional<ReadBeforehand> beforehand_;
  Call call_;
};

}  // namespace overlimit::python
