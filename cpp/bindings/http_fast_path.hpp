// The only place in C++ that knows of HTTP, for speed: no Python object for each charge and each row.
#pragma once

#include <Python.h>

namespace overlimit::python {

/// Adds the functions to the module; false: a Python exception is set.
bool add_http_fast_path(PyObject* module);

}  // namespace overlimit::python
