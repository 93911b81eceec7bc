// refund and settle: what a decision has charged is given back, or charged further.
#pragma once

#include <Python.h>

namespace overlimit::python {

/// Adds what settles a decision for several limiters to the module; false with a Python exception set.
bool add_refunding(PyObject* module);

/// Methods of Limiter: METH_O, and METH_FASTCALL. Those that are called later return a PendingCall.
PyObject* refund(PyObject* self, PyObject* decision);
PyObject* refund_later(PyObject* self, PyObject* decision);
PyObject* refund_part(PyObject* self, PyObject* const* arguments, Py_ssize_t count);
PyObject* refund_part_later(PyObject* self, PyObject* const* arguments, Py_ssize_t count);
PyObject* settle(PyObject* self, PyObject* const* arguments, Py_ssize_t count);
PyObject* settle_later(PyObject* self, PyObject* const* arguments, Py_ssize_t count);

}  // namespace overlimit::python
