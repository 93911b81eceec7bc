// Waiting for a store: others run Python meanwhile, and signals are noticed.
#pragma once

#include <Python.h>

#include "errors.hpp"
#include "object.hpp"
#include "overlimit/store.hpp"

namespace overlimit::python {

/// Holds the GIL in a thread that may have it already. Once the interpreter has ended, it never returns.
class GilHeld : NonCopyable {
 public:
  GilHeld() : state_(ensured()) {}
  ~GilHeld() { PyGILState_Release(state_); }

 private:
  static PyGILState_STATE ensured() {
    if (is_finalizing()) stay_forever();
    return PyGILState_Ensure();
  }

  PyGILState_STATE state_;
};

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
