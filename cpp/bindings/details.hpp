// overlimit.Decision.details: the rows of a decision as a sequence. Each is made when it is first read.
#pragma once

#include <Python.h>

namespace overlimit::python {

/// Adds the type to the module; false with a Python exception set.
bool add_details(PyObject* module);

/// Those of a Decision, which they keep alive: a new reference. MemoryError is thrown as PythonError.
PyObject* new_details(PyObject* decision);

}  // namespace overlimit::python
