// hit, peek and hit_all: the hot path.
#pragma once

#include <Python.h>

#include "object.hpp"
#include "overlimit/call.hpp"

namespace overlimit::python {

class ChargeList;
class ChargesOfLimiters;
class RefundClaim;
struct LimiterState;

/// Makes what the functions below need; false with a Python exception set.
bool prepare_deciding();

/// Methods of Limiter, METH_FASTCALL | METH_KEYWORDS.
PyObject* hit(PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* names);
PyObject* hit_within(PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* names);
PyObject* peek(PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* names);
PyObject* peek_within(PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* names);
PyObject* charge(PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* names);

/// Functions of the module, METH_O.
PyObject* hit_all(PyObject* module, PyObject* charges);
PyObject* peek_all(PyObject* module, PyObject* charges);

/// The same for callers who wait, METH_FASTCALL, and what all of them check.
PyObject* hit_all_within(PyObject* module, PyObject* const* arguments, Py_ssize_t count);
PyObject* peek_all_within(PyObject* module, PyObject* const* arguments, Py_ssize_t count);
PyObject* checked_charges(PyObject* module, PyObject* charges);

/// Decides charges under several limiters, at least one, and calls their on_decision unless it is a peek.
Object decide_all(const ChargesOfLimiters& collected, Mode mode, Duration patience = kNever);

/// Charges what a decision turns out to cost beyond what it has charged, and shows the present; `cost` is
/// what the answer says was asked.
Object charge_more(LimiterState& limiter, const ChargeList& charges, PyObject* cost, RefundClaim& claim);

}  // namespace overlimit::python
