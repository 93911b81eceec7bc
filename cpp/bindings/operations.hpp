// The operations there are, besides hit, peek and their relatives, which take a shorter way.
#pragma once

#include <Python.h>

namespace overlimit::python {

/// Adds them to the Limiter of the module and to the module; false with a Python exception set.
bool add_operations(PyObject* module);

}  // namespace overlimit::python
