// The one place where C++ exceptions become Python's.
#pragma once

#include <Python.h>

namespace overlimit::python {

/// Sets the Python exception for the C++ exception being handled; call it in a catch block. The classes are
/// those of overlimit.errors with the same names.
void set_python_error() noexcept;

/// Runs an action and turns what it throws into a Python exception and `failure`.
template <class Action, class Result>
Result guarded(Result failure, const Action& action) noexcept {
  try {
    return action();
  } catch (...) {
    set_python_error();
    return failure;
  }
}

}  // namespace overlimit::python
