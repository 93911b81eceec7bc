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
std::atomic<PyObject*> write_class = nullptr;

void load_hooks(PyObject*) {
  Object module = required(PyImport_ImportModule("overlimit._core_hooks"));
  detail = checked(PyObject_GetAttrString(module.get(), "Detail"));
  write_class = checked(PyObject_GetAttrString(module.get(), "Write"));
  hooks = module.release();
}

PyObject* loaded(const std::atomic<PyObject*>& what) {
  PyObject* const loaded = what.load(std::memory_order_acquire);
  if (loaded == nullptr) raise(PyExc_RuntimeError, "the package overlimit is not imported yet");
  return loaded;
}

PyMethodDef hook_functions[] = {method<load_hooks>(
    "_load_hooks", "_load_hooks()\n--\n\nImport overlimit._core_hooks, which the core calls.")};

}  // namespace

void add_hooks(PyObject* module) { add_functions(module, hook_functions); }

Object hook(const char* name) { return required(PyObject_GetAttrString(loaded(hooks), name)); }

PyTypeObject* detail_type() { return reinterpret_cast<PyTypeObject*>(loaded(detail)); }

PyTypeObject* write_type() { return reinterpret_cast<PyTypeObject*>(loaded(write_class)); }

void warn_about_shared_memory(const std::string& message) {
  in_python([&] {
    try {
      call_hook("warn_about_shared_memory", text_of(message.c_str()).get());
    } catch (const PythonError&) {
      PyErr_WriteUnraisable(nullptr);
    }
  });
}

}  // namespace overlimit::python
