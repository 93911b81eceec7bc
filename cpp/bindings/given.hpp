// Part of module.cpp: objects that pybind11 has bound, as arguments. They are taken by their holders: of an
// object whose __init__ was never called pybind11 would otherwise hand out uninitialised memory.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>

namespace overlimit::python {

/// The object itself; TypeError for None.
template <class Bound>
Bound& given(const std::shared_ptr<Bound>& object) {
  if (!object) throw pybind11::type_error("the argument must not be None");
  return *object;
}

}  // namespace overlimit::python
