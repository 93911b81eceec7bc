// The one place where C++ exceptions become Python's.
#pragma once

#include <Python.h>
#include <unistd.h>

#include <exception>
#include <type_traits>

#include "object.hpp"

namespace overlimit::python {

/// Ends here a thread that asks for the GIL of an interpreter that is ending: up to Python 3.13 it is unwound
/// by force, which neither destructors nor C frames survive. As of 3.14 Python itself does this.
[[noreturn]] inline void stay_forever() {
  for (;;) pause();
}

/// Runs an action, and stays forever when the thread is unwound by force out of it. That runs destructors,
/// and depending on the C++ library blocks that catch everything, but adds no exception to those `in_flight`.
template <class Action>
auto staying_when_ended(const Action& action, int in_flight = 0) {
  struct Stay {
    int in_flight;
    bool is_left = false;
    ~Stay() {
      if (!is_left && std::uncaught_exceptions() == in_flight) stay_forever();
    }
  } stay{in_flight};
  if constexpr (std::is_void_v<decltype(action())>) {
    action();
    stay.is_left = true;
  } else {
    auto result = action();
    stay.is_left = true;
    return result;
  }
}

/// To be called in a catch block: sets Python's exception, of the class of overlimit.errors with that name.
void set_python_error() noexcept;

/// Raises an error about a wrong argument: the format's one %U becomes its repr, cut short where it is long.
[[noreturn]] void raise_about(PyObject* type, const char* format, PyObject* argument);

/// Raises an error with a message as PyErr_Format() makes it.
template <class... Arguments>
[[noreturn]] void raise(PyObject* type, const char* format, Arguments... arguments) {
  PyErr_Format(type, format, arguments...);
  throw PythonError{};
}
[[noreturn]] inline void raise_value_error(const char* message) { raise(PyExc_ValueError, "%s", message); }
[[noreturn]] inline void raise_type_error(const char* message) { raise(PyExc_TypeError, "%s", message); }

/// Runs an action and turns what it throws into a Python exception and `failure`.
template <class Action, class Result>
Result guarded(Result failure, const Action& action) noexcept {
  try {
    return staying_when_ended(action);
  } catch (...) {
    set_python_error();
    return failure;
  }
}

}  // namespace overlimit::python
