#include "hooks.hpp"

#include <atomic>

#include "functions.hpp"
#include "module.hpp"
#include "waits.hpp"

namespace overlimit::python {
namespace {

// What they are replaced by, if anybody loads them again, does not end them: a thread may be using them.
std::atomic<PyObject*> hooks = nullptr;
std::atomic<PyObject*> detail = nullptr;

void load_hooks(PyObject*) {
  Object module = required(PyImport_ImportModule("overlimit._core_hooks"));
  detail = checked(PyObject_GetAttrString(module.get(), "Detail"));
  hooks = module.release();
}

[[noreturn]] void refuse() {
  PyErr_SetString(PyExc_RuntimeError, "the package overlimit is not imported yet");
  throw PythonError{};
}

PyMethodDef functions[] = {method<load_hooks>(
    "_load_hooks", "_load_hooks()\n--\n\nImport overlimit._core_hooks, which the core calls.")};

}  // namespace

void add_hooks(PyObject* module) { add_functions(module, functions); }

Object hook(const char* name) {
  PyObject* const loaded = hooks.load(std::memory_order_acquire);
  if (loaded == nullptr) refuse();
  return required(PyObject_GetAttrString(loaded, name));
}

PyTypeObject* detail_type() {
  PyObject* const loaded = detail.load(std::memory_order_acquire);
  if (loaded == nullptr) refuse();
  return reinterpret_cast<PyTypeObject*>(loaded);
}

void warn_about_shared_memory(const std::string& message) {
  in_python([&] {
    try {
      const Object text = text_of(message.c_str());
      call_hook("warn_about_shared_memory", checked(text.get()));
    } catch (const PythonError&) {
      PyErr_WriteUnraisable(nullptr);
    }
  });
}

}  // namespace overlimit::python
