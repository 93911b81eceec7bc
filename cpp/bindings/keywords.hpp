// Refuses keyword arguments that pybind11 cannot show in an error: it would end the process.
#pragma once

#include <Python.h>

namespace overlimit::python {

/// Puts a check before everything that pybind11 has bound in this module and its classes so far: a keyword
/// that has no UTF-8, such as "\ud800", is a TypeError. pybind11 throws out of a C function for it, while it
/// writes its own. False with a Python exception set.
bool check_keywords(PyObject* module);

}  // namespace overlimit::python
