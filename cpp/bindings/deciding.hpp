// hit, peek and hit_all: the hot path.
#pragma once

#include <Python.h>

namespace overlimit::python {

/// Makes what the functions below need; false with a Python exception set.
bool prepare_deciding();

/// Methods of Limiter, METH_FASTCALL | METH_KEYWORDS.
PyObject* hit(PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* names);
PyObject* hit_within(PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* names);
PyObject* peek(PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* names);
PyObject* peek_within(PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* names);

/// Functions of the module, METH_O; the charges of the second one have roles.
PyObject* hit_all(PyObject* module, PyObject* charges);
PyObject* hit_charges(PyObject* module, PyObject* charges);

}  // namespace overlimit::python
