// Between the C API files and what pybind11 binds: the first two are defined in module.cpp, the last one in
// keywords.cpp.
#pragma once

#include <Python.h>

#include <memory>

#include "overlimit/limit.hpp"
#include "overlimit/store.hpp"

namespace overlimit::python {

/// The store inside a bound store object. TypeError thrown as PythonError.
std::shared_ptr<Store> store_from(PyObject* object);

/// The limit inside a bound limit object. TypeError thrown as PythonError.
Limit limit_from(PyObject* object);

/// Puts a check before everything that pybind11 has bound in this module and its classes so far: a keyword
/// that has no UTF-8, such as "\ud800", is a TypeError. pybind11 throws out of a C function for it, while it
/// writes its own. False with a Python exception set.
bool check_keywords(PyObject* module);

}  // namespace overlimit::python
