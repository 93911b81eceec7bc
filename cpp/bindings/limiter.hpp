// overlimit._core.Limiter, the base of overlimit.Limiter, on the C API.
#pragma once

#include <Python.h>

#include <memory>

#include "clock.hpp"
#include "object.hpp"
#include "overlimit/store.hpp"

namespace overlimit::python {

/// What a limiter is bound to. Made once by __init__; only the policy changes later, with update.
struct Binding {
  Object policy;
  std::shared_ptr<Store> store;
  ClockSource clock;
  Object on_decision;  ///< None: nobody is told
  unsigned forks;      ///< of this process when it was made, or last noticed
};

/// Adds the type and the functions to the module; false with a Python exception set.
bool add_limiter(PyObject* module);

/// The binding of a Limiter. RuntimeError for one whose __init__ was never called, TypeError for what is
/// none, thrown as PythonError.
Binding& binding_of(PyObject* limiter);

/// Warns, once per process, of a limiter in memory that was made before this process forked.
void notice_fork(Binding& binding);

/// A call of these charges, asked now by the limiter's clock.
Call call_of(const Binding& binding, std::span<const Charge> charges);

}  // namespace overlimit::python
