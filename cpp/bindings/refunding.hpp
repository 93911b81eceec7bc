// refund and settle: what a decision has charged is given back, or charged further.
#pragma once

#include <Python.h>

#include "operations.hpp"

namespace overlimit::python {

/// What the methods of Limiter ask.
Task refunding(PyObject* self, PyObject* decision);
Task refunding_part(PyObject* self, Arguments arguments);
Task settling(PyObject* self, Arguments arguments);
/// What _settle_more and _settle_rest ask.
Task settling_more(PyObject* self, Arguments arguments);
Task settling_rest(PyObject* self, Arguments arguments);

}  // namespace overlimit::python
