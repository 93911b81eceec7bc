// The only place in C++ that knows of HTTP, for speed: no Python object for each charge and each row.
#pragma once

#include <Python.h>

namespace overlimit::python {

/// METH_FASTCALL: a tuple of resolved rules (limiter, identify, cost, role), a dict of known identifiers by
/// `identify`, a function that converts what another `identify` returns, and the arguments of the app's
/// functions. It charges all identifiers, adds those it asked for to the dict, and raises as hit_all does.
PyObject* decide_request(PyObject* module, PyObject* const* arguments, Py_ssize_t count);
/// The same, to be awaited: returns a PendingCall.
PyObject* decide_request_later(PyObject* module, PyObject* const* arguments, Py_ssize_t count);

/// A function of the module, METH_FASTCALL: a decision and, per policy in the order of its charges, a tuple
/// of one key per limit in the order given, or None for what is not shown. Each key is followed by what its
/// limit answered for all identifiers: the smallest remaining; behind `;t=` the longest retry_after when it
/// refused anyone, else the reset_after of who has least left, in seconds rounded up, and nothing when
/// waiting cannot help. Consecutive charges of one policy belong together.
///
/// Source: draft-ietf-httpapi-ratelimit-headers; integers as in RFC 9651, section 3.3.1.
PyObject* rate_field(PyObject* module, PyObject* const* arguments, Py_ssize_t count);

}  // namespace overlimit::python
