// overlimit._core.Limiter, the base of overlimit.Limiter, and hit_all: the hot path, on the C API.
#pragma once

#include <Python.h>

#include "overlimit/policy.hpp"

namespace overlimit::python {

/// Adds the type and the functions to the module; false with a Python exception set.
bool add_limiter(PyObject* module);

/// Of a limiter: its plan, the tuple of its limits as given, and its name (both borrowed).
const Plan& plan_of(PyObject* limiter);
PyObject* limits_of(PyObject* limiter);
PyObject* name_of(PyObject* limiter);

}  // namespace overlimit::python
