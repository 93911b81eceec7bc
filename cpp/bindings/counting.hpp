// Where a limiter counts for metrics what is not about one limit. None of this is on the path of a hit.
#pragma once

#include <Python.h>

#include "counters.hpp"
#include "limiter.hpp"

namespace overlimit::python {

CounterSlot& counters_of_policy(const LimiterState& limiter);

/// Finds where its present policy counts, and its store if that can fail. PythonError.
void find_counters(LimiterState& limiter);

/// Method of Limiter, METH_O.
PyObject* count_wait(PyObject* self, PyObject* microseconds);

}  // namespace overlimit::python
