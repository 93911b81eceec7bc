// The one place where C++ exceptions become Python's.
#pragma once

#include <Python.h>
#include <cxxabi.h>
#include <unistd.h>

#include "object.hpp"

namespace overlimit::python {

/// Ends here a thread that asks for the GIL of an interpreter that is ending: up to Python 3.13 it is unwound
/// by force, which neither destructors nor C frames survive. As of 3.14 Python itself does this.
[[noreturn]] inline void stay_forever() {
  for (;;) pause();
}

/// To be called in a catch block: sets Python's exception, of the class of overlimit.errors with that name.
void set_python_error() noexcept;

/// Raises an error about a wrong argument: the format's one %U becomes its repr, cut short where it is long.
[[noreturn]] void raise_about(PyObject* type, const char* format, PyObject* argument);

[[noreturn]] inline void raise_value_error(const char* message) {
  PyErr_SetString(PyExc_ValueError, message);
  throw PythonError{};
}

[[noreturn]] inline void raise_type_error(const char* message) {
  PyErr_SetString(PyExc_TypeError, message);
  throw PythonError{};
}

/// Runs an action and turns what it throws into a Python exception and `failure`.
template <class Action, class Result>
Result guarded(Result failure, const Action& action) noexcept {
  try {
    return action();
  } catch (const abi::__forced_unwind&) {
    stay_forever();
  } catch (...) {
    set_python_error();
    return failure;
  }
}

}  // namespace overlimit::python
