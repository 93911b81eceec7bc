// What the core leaves to Python because it need not be fast: overlimit._core_hooks.
#pragma once

#include <Python.h>

#include <string>

#include "object.hpp"

namespace overlimit::python {

/// One of them by its name: a new reference.
Object hook(const char* name);

/// Has Python log a warning; called with the GIL or without it.
void warn_about_shared_memory(const std::string& message);

/// The class Detail (borrowed), without looking for it.
PyTypeObject* detail_type();

/// What one of them returns.
template <class... Arguments>
Object call_hook(const char* name, Arguments*... arguments) {
  const Object function = hook(name);
  return required(
      PyObject_CallFunctionObjArgs(function.get(), arguments..., static_cast<PyObject*>(nullptr)));
}

}  // namespace overlimit::python
