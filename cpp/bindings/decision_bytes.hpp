// A Decision as bytes, and a Decision of bytes.
#pragma once

#include <Python.h>

#include <string>
#include <string_view>

#include "decision.hpp"

namespace overlimit::python {

/// The bytes of a decision by its values. Runs Python code, that of the limits; what it raises is thrown as
/// PythonError.
std::string bytes_of(const DecisionParts& decision);

/// A decision equal to the one that had these bytes, with nothing to give back: a new reference. ValueError
/// for any other bytes, thrown as PythonError or std::invalid_argument.
PyObject* decision_from(std::string_view bytes);

}  // namespace overlimit::python
