// Waiting for a store: others run Python meanwhile, and signals are noticed.
#pragma once

#include <Python.h>

#include "errors.hpp"
#include "object.hpp"
#include "overlimit/fibers.hpp"
#include "overlimit/store.hpp"

namespace overlimit::python {

/// Holds the GIL in a thread that may have it already. Once the interpreter has ended, it never returns.
class GilHeld : NonCopyable {
 public:
  GilHeld() : state_(ensured()) {}
  /// A thread that the interpreter ends within Python has no state to release any more.
  ~GilHeld() {
    if (!is_finalizing()) PyGILState_Release(state_);
  }

 private:
  static PyGILState_STATE ensured() {
    if (is_finalizing()) stay_forever();
    return PyGILState_Ensure();
  }

  PyGILState_STATE state_;
};

/// A Python exception that was taken from its thread, to be set again later.
class TakenError {
 public:
  TakenError() { PyErr_Fetch(&type_, &value_, &traceback_); }
  /// Sets it, once.
  void set() {
    PyErr_Restore(std::exchange(type_, nullptr), std::exchange(value_, nullptr),
                  std::exchange(traceback_, nullptr));
  }

 private:
  PyObject* type_ = nullptr;
  PyObject* value_ = nullptr;
  PyObject* traceback_ = nullptr;
};

/// Runs an action of Python: with the GIL, and not on the stack of a fiber, where it throws TakenError
/// instead of PythonError, as others may run before somebody looks.
template <class Action>
void in_python(const Action& action) {
  Fibers* const fibers = Fibers::current();
  if (fibers == nullptr) {
    const GilHeld held;
    return action();
  }
  fibers->run_outside([&] {
    try {
      action();
    } catch (const PythonError&) {
      throw TakenError();
    }
  });
}

inline bool python_interrupts() {
  const GilHeld held;
  return PyErr_CheckSignals() != 0;
}

/// Lets other threads run Python while this one waits.
class GilReleased : NonCopyable {
 public:
  GilReleased() : state_(PyEval_SaveThread()) {}
  // It throws nothing; but out of what may throw nothing, clang ends the process without calling destructors.
  ~GilReleased() noexcept(false) {  // NOLINT(performance-noexcept-destructor)
    staying_when_ended([this] { PyEval_RestoreThread(state_); }, std::uncaught_exceptions());
  }

 private:
  PyThreadState* state_;
};

inline const Interrupted kInterrupted = python_interrupts;

template <class Action>
void without_gil(const Action& action) {
  const GilReleased released;
  action(kInterrupted);
}

}  // namespace overlimit::python
