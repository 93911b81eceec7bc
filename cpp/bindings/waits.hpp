// Waiting for a store: others run Python meanwhile, and signals are noticed.
#pragma once

#include <Python.h>

#include "errors.hpp"
#include "overlimit/store.hpp"

namespace overlimit::python {

inline bool python_interrupts() {
  const PyGILState_STATE state = PyGILState_Ensure();
  const bool interrupted = PyErr_CheckSignals() != 0;
  PyGILState_Release(state);
  return interrupted;
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
