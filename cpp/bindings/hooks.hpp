// What the core leaves to Python because it need not be fast: overlimit._core_hooks.
#pragma once

#include <Python.h>

#include <array>
#include <string>

#include "object.hpp"

namespace overlimit::python {

/// One of them by its name: a new reference.
Object hook(const char* name);

/// Has Python log a warning; called with the GIL or without it.
void warn_about_shared_memory(const std::string& message);

/// The classes Detail and Write (borrowed), without looking for them.
PyTypeObject* detail_type();
PyTypeObject* write_type();

/// A NamedTuple as tuple.__new__ makes one, of values whose references it takes. Calling its class runs
/// Python code and takes several times as long.
template <std::size_t kFields>
Object named_tuple(PyTypeObject* type, std::array<Object, kFields> values) {
  auto* const tuple = PyObject_GC_NewVar(PyTupleObject, type, Py_ssize_t{kFields});
  Object made = required(reinterpret_cast<PyObject*>(tuple));
#if PY_VERSION_HEX >= 0x030e0000
  tuple->ob_hash = -1;  // not known yet
#endif
  for (std::size_t i = 0; i < kFields; ++i) tuple->ob_item[i] = values[i].release();
  PyObject_GC_Track(made.get());
  return made;
}

/// What one of them returns.
template <class... Arguments>
Object call_hook(const char* name, Arguments*... arguments) {
  const Object function = hook(name);
  return required(
      PyObject_CallFunctionObjArgs(function.get(), arguments..., static_cast<PyObject*>(nullptr)));
}

}  // namespace overlimit::python
