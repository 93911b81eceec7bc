// What the C API files need of the objects that pybind11 binds; defined in module.cpp.
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

}  // namespace overlimit::python
