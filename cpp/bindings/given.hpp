// Part of module.cpp: objects that pybind11 has bound, as arguments. They are taken by their holders: of an
// object whose __init__ was never called pybind11 would otherwise hand out uninitialised memory.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>

#include "errors.hpp"

namespace overlimit::python {

/// The object itself; TypeError for None.
template <class Bound>
Bound& given(const std::shared_ptr<Bound>& object) {
  if (!object) throw pybind11::type_error("the argument must not be None");
  return *object;
}

/// Runs an action that may throw what the C API files throw.
template <class Action>
auto with_python_errors(const Action& action) {
  try {
    return action();
  } catch (const abi::__forced_unwind&) {
    stay_forever();
  } catch (const pybind11::error_already_set&) {
    throw;
  } catch (const pybind11::builtin_exception&) {
    throw;
  } catch (...) {
    set_python_error();
    throw pybind11::error_already_set();
  }
}

}  // namespace overlimit::python
