// hit, peek and hit_all: the hot path.
#pragma once

#include <Python.h>

#include "object.hpp"

namespace overlimit::python {

class ChargesOfLimiters;

/// Makes what the functions below need; false with a Python exception set.
bool prepare_deciding();

/// Methods of Limiter, METH_FASTCALL | METH_KEYWORDS.
PyObject* hit(PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* names);
PyObject* hit_within(PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* names);
PyObject* peek(PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* names);
PyObject* peek_within(PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* names);

/// A function of the module, METH_O.
PyObject* hit_all(PyObject* module, PyObject* charges);

/// Decides charges under several limiters, at least one, and calls their on_decision.
Object decide_all(const ChargesOfLimiters& collected);

}  // namespace overlimit::python
