#include "hooks.hpp"

namespace overlimit::python {
namespace {

PyObject* hooks = nullptr;

PyObject* load_hooks(PyObject*, PyObject*) {
  PyObject* const module = PyImport_ImportModule("overlimit._core_hooks");
  if (module == nullptr) return nullptr;
  Py_XSETREF(hooks, module);
  Py_RETURN_NONE;
}

PyMethodDef functions[] = {{"_load_hooks", load_hooks, METH_NOARGS,
                            "_load_hooks()\n--\n\nImport overlimit._core_hooks, which the core calls."},
                           {nullptr, nullptr, 0, nullptr}};

}  // namespace

bool add_hooks(PyObject* module) { return PyModule_AddFunctions(module, functions) == 0; }

Object hook(const char* name) {
  if (hooks == nullptr) {
    PyErr_SetString(PyExc_RuntimeError, "the package overlimit is not imported yet");
    throw PythonError{};
  }
  return required(PyObject_GetAttrString(hooks, name));
}

}  // namespace overlimit::python
