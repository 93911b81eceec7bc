// The values of a Decision, and a Decision of values; Python makes bytes of them.
#pragma once

#include <Python.h>

#include "object.hpp"

namespace overlimit::python {

/// Adds the function that makes a Decision; false with a Python exception set.
bool add_decision_values(PyObject* module);

/// The bytes of a Decision, by its values alone: equal ones have equal bytes.
Object bytes_of(PyObject* decision);

}  // namespace overlimit::python
