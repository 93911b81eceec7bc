// overlimit._core.Limiter, the base of overlimit.Limiter, and hit_all: the hot path, on the C API.
#pragma once

#include <Python.h>

namespace overlimit::python {

/// Adds the type and the functions to the module; false with a Python exception set.
bool add_limiter(PyObject* module);

}  // namespace overlimit::python
