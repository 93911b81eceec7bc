// Calls under a lock of Python's that a signal handler cannot break, whenever it raises.
#pragma once

#include <Python.h>

namespace overlimit::python {

/// Adds the function to the module; false with a Python exception set.
bool add_locked_calls(PyObject* module);

}  // namespace overlimit::python
