// Between module.cpp and the C API files.
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

/// Puts a check before all that pybind11 has bound in this module: a keyword without UTF-8, such as "\ud800",
/// is a TypeError, where pybind11 would throw out of a C function. False with a Python exception set.
bool check_keywords(PyObject* module);

/// These add what the source of that name holds to the module; false with a Python exception set.
bool add_http_fast_path(PyObject* module);
bool add_locked_calls(PyObject* module);

}  // namespace overlimit::python
