// What is asked of a store by a function or a method, said once: it blocks the thread that calls it, and
// _later() has an event loop await the same.
#pragma once

#include <Python.h>

#include <memory>
#include <span>

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

template <auto prepare, class... Given>
PyObject* performed(PyObject* self, const Given&... given) {
  return guarded(static_cast<PyObject*>(nullptr),
                 [&] { return perform(*prepare(self, given...)).release(); });
}

inline void check_is_called(bool is_right) {
  if (!is_right) raise_type_error("_later() was given other arguments than the operation takes");
}

// An operation by what prepares it, whose parameters say how Python gives it its arguments.

template <Task (*prepare)(PyObject*)>
Operation operation(const char* name, const char* doc) {
  const PyCFunction now = [](PyObject* self, PyObject*) { return performed<prepare>(self); };
  return {{name, now, METH_NOARGS, doc}, [](PyObject* self, Arguments arguments, PyObject* names) {
            check_is_called(arguments.empty() && names == nullptr);
            return prepare(self);
          }};
}

template <Task (*prepare)(PyObject*, PyObject*)>
Operation operation(const char* name, const char* doc) {
  const PyCFunction now = [](PyObject* self, PyObject* argument) {
    return performed<prepare>(self, argument);
  };
  return {{name, now, METH_O, doc}, [](PyObject* self, Arguments arguments, PyObject* names) {
            check_is_called(arguments.size() == 1 && names == nullptr);
            return prepare(self, arguments.front());
          }};
}

template <Task (*prepare)(PyObject*, Arguments)>
Operation operation(const char* name, const char* doc) {
  constexpr auto now = [](PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
    return performed<prepare>(self, Arguments(arguments, std::size_t(count)));
  };
  return {{name, as_c_function(+now), METH_FASTCALL, doc},
          [](PyObject* self, Arguments arguments, PyObject* names) {
            check_is_called(names == nullptr);
            return prepare(self, arguments);
          }};
}

template <Task (*prepare)(PyObject*, Arguments, PyObject*)>
Operation operation(const char* name, const char* doc) {
  constexpr auto now = [](PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* names) {
    return performed<prepare>(self, Arguments(arguments, std::size_t(count)), names);
  };
  return {{name, as_c_function(+now), METH_FASTCALL | METH_KEYWORDS, doc}, prepare};
}

}  // namespace overlimit::python
