// Arguments of what pybind11 binds. Objects that pybind11 has bound are taken by their holders: of one whose
// __init__ was never called it would otherwise hand out uninitialised memory.
#pragma once

#include <pybind11/pybind11.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <type_traits>

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
    return staying_when_ended(action);
  } catch (const pybind11::error_already_set&) {
    throw;
  } catch (const pybind11::builtin_exception&) {
    throw;
  } catch (...) {
    set_python_error();
    throw pybind11::error_already_set();
  }
}

/// A method that pybind11 binds, made of a function of the object, or of one of its member functions. An
/// Object that it returns is handed to Python.
template <class Bound, class... Parameters, class Function>
auto bound_to(const Function& function) {
  return [function](const std::shared_ptr<Bound>& self, Parameters... arguments) {
    return with_python_errors([&] {
      using Result = std::invoke_result_t<Function, Bound&, Parameters...>;
      const auto run = [&] {
        return std::invoke(function, given(self), std::forward<Parameters>(arguments)...);
      };
      if constexpr (std::is_same_v<Result, Object>) {
        return pybind11::reinterpret_steal<pybind11::object>(run().release());
      } else {
        return run();
      }
    });
  };
}
template <class Bound, class Result, class... Parameters>
auto bound(Result (*function)(Bound&, Parameters...)) {
  return bound_to<Bound, Parameters...>(function);
}
template <class Bound, class Result, class... Parameters>
auto bound(Result (Bound::*function)(Parameters...)) {
  return bound_to<Bound, Parameters...>(function);
}
template <class Bound, class Result, class... Parameters>
auto bound(Result (Bound::*function)(Parameters...) const) {
  return bound_to<Bound, Parameters...>(function);
}

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
