// What is asked of a store by a function or a method, said once: it blocks the thread that calls it, and
// _later() has an event loop await the same. Only hit, peek and their relatives take shorter ways.
#pragma once

#include <Python.h>

#include <memory>
#include <span>
#include <type_traits>

#include "errors.hpp"
#include "object.hpp"
#include "store_task.hpp"

namespace overlimit::python {

using Task = std::unique_ptr<StoreTask>;
/// Borrowed. The values of keywords, if there are any, follow behind them.
using Arguments = std::span<PyObject* const>;

struct Operation {
  PyMethodDef method;
  /// TypeError for arguments that Python would not give the method, thrown as PythonError.
  Task (*prepare)(PyObject* self, Arguments arguments, PyObject* names);
};

/// Calls what prepares an operation, whose parameters say what arguments it takes.
template <auto prepare>
Task prepared(PyObject* self, Arguments arguments, PyObject* names) {
  using Prepare = decltype(prepare);
  constexpr bool is_alone = std::is_invocable_v<Prepare, PyObject*>;
  constexpr bool takes_one = std::is_invocable_v<Prepare, PyObject*, PyObject*>;
  if constexpr (std::is_invocable_v<Prepare, PyObject*, Arguments, PyObject*>) {
    return prepare(self, arguments, names);
  } else {
    if (names != nullptr || (is_alone && !arguments.empty()) || (takes_one && arguments.size() != 1))
      raise_type_error("this operation takes other arguments");
    if constexpr (is_alone) return prepare(self);
    if constexpr (takes_one) return prepare(self, arguments[0]);
    if constexpr (!is_alone && !takes_one) return prepare(self, arguments);
  }
}

template <auto prepare>
PyObject* performed(PyObject* self, Arguments arguments, PyObject* names = nullptr) {
  return guarded(static_cast<PyObject*>(nullptr),
                 [&] { return perform(*prepared<prepare>(self, arguments, names)).release(); });
}

template <auto prepare>
Operation operation(const char* name, const char* doc) {
  using Prepare = decltype(prepare);
  if constexpr (std::is_invocable_v<Prepare, PyObject*>) {
    const PyCFunction now = [](PyObject* self, PyObject*) { return performed<prepare>(self, {}); };
    return {{name, now, METH_NOARGS, doc}, prepared<prepare>};
  } else if constexpr (std::is_invocable_v<Prepare, PyObject*, PyObject*>) {
    const PyCFunction now = [](PyObject* self, PyObject* one) { return performed<prepare>(self, {&one, 1}); };
    return {{name, now, METH_O, doc}, prepared<prepare>};
  } else {
    constexpr auto now = +[](PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* names) {
      return performed<prepare>(self, {arguments, std::size_t(count)}, names);
    };
    return {{name, as_c_function(now), METH_FASTCALL | METH_KEYWORDS, doc}, prepared<prepare>};
  }
}

// What prepares them in deciding.cpp and in refunding.cpp.
Task charging(PyObject* self, Arguments identifiers, PyObject* names);
Task refunding(PyObject* self, PyObject* decision);
Task refunding_part(PyObject* self, Arguments arguments);
Task settling(PyObject* self, Arguments arguments);
Task settling_more(PyObject* self, Arguments arguments);
Task settling_rest(PyObject* self, Arguments arguments);

/// Adds them to the Limiter of the module and to the module; false with a Python exception set.
bool add_operations(PyObject* module);

}  // namespace overlimit::python
