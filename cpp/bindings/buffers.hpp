// Part of module.cpp: columns of numbers that Python gives, as objects with a buffer, such as numpy arrays.
#pragma once

#include <pybind11/pybind11.h>

#include <cstddef>
#include <span>
#include <string>

namespace overlimit::python {

/// The rows of a column that Python gives. The buffer must outlive them. TypeError unless it has contiguous
/// numbers of this type.
template <class Number>
std::span<Number> rows_of(const pybind11::buffer_info& buffer, const std::string& name) {
  const bool contiguous = buffer.ndim == 1 && (buffer.size < 2 || buffer.strides[0] == buffer.itemsize);
  if (!contiguous || !buffer.item_type_is_equivalent_to<Number>()) {
    throw pybind11::type_error(name + " must be a contiguous column of numbers, of " +
                               std::to_string(sizeof(Number)) + " bytes each");
  }
  return {static_cast<Number*>(buffer.ptr), static_cast<std::size_t>(buffer.size)};
}

}  // namespace overlimit::python
