// Waiting for a store: others run Python meanwhile, and signals are noticed.
#pragma once

#include <Python.h>

#include "errors.hpp"
#include "object.hpp"
#include "overlimit/store.hpp"

namespace overlimit::python {

/// Holds the GIL in a thread that may or may not have it. Once the interpreter has ended there is no GIL to
/// take, and the thread never returns from here.
class GilHeld {
 public:
  GilHeld() : state_(ensured()) {}
  ~GilHeld() { PyGILState_Release(state_); }
  GilHeld(const GilHeld&) = delete;
  GilHeld& operator=(const GilHeld&) = delete;

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
class GilReleased {
 public:
  GilReleased() : state_(PyEval_SaveThread()) {}
  ~GilReleased() {
    try {
      PyEval_RestoreThread(state_);
    } catch (const abi::__forced_unwind&) {
      stay_forever();
    }
  }
  GilReleased(const GilReleased&) = delete;
  GilReleased& operator=(const GilReleased&) = delete;

 private:
  PyThreadState* state_;
};

inline const Interrupted kInterrupted = python_interrupts;

/// Runs an action of the store without the GIL.
template <class Action>
void without_gil(const Action& action) {
  const GilReleased released;
  action(kInterrupted);
}

}  // namespace overlimit::python
