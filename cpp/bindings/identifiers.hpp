// Identifiers and costs as Python gives them.
#pragma once

#include <Python.h>

#include <string_view>
#include <vector>

#include "object.hpp"
#include "overlimit/algorithms/step.hpp"

namespace overlimit::python {

/// Keeps what had to be encoded alive for as long as its views are used.
class IdentifierBytes {
 public:
  /// The bytes of a str (UTF-8, surrogatepass) or bytes identifier, valid as long as it and this live.
  /// TypeError for another type, ValueError for an empty one, thrown as PythonError.
  std::string_view view(PyObject* identifier);

 private:
  std::string_view encode(PyObject* text);
  std::vector<Object> encoded_;
};

/// A cost as it was asked for, read once.
class WholeCost {
 public:
  /// Borrows an int. TypeError for what is not an integer (bool included), thrown as PythonError.
  explicit WholeCost(PyObject* cost) : number_(cost) {
    if (!PyLong_CheckExact(cost)) convert();
  }
  /// The int, as long as this lives.
  [[nodiscard]] PyObject* number() const { return number_; }
  /// The cost, saturating at 2^53, which no limit grants. ValueError for a negative one, thrown as
  /// PythonError.
  [[nodiscard]] Cost units() const;

 private:
  void convert();

  PyObject* number_;
  Object converted_;
};

}  // namespace overlimit::python
