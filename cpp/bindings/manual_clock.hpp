// overlimit.ManualClock: a heap type, so that reading it costs nothing.
#pragma once

#include <Python.h>

#include "overlimit/time.hpp"

namespace overlimit::python {

/// Adds the type to the module; false with a Python exception set.
bool add_manual_clock(PyObject* module);

/// The clock inside, or nullptr for any other object.
ManualClock* manual_clock_in(PyObject* object);

}  // namespace overlimit::python
