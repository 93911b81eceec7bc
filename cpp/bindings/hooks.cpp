#include "hooks.hpp"

namespace overlimit::python {
namespace {

PyObject* hooks = nullptr;
PyObject* detail = nullptr;

PyObject* load_hooks(PyObject*, PyObject*) {
  Object module = Object::steal(PyImport_ImportModule("overlimit._core_hooks"));
  if (!module) return nullptr;
  PyObject* const type = PyObject_GetAttrString(module.get(), "Detail");
  if (type == nullptr) return nullptr;
  Py_XSETREF(detail, type);
  Py_XSETREF(hooks, module.release());
  Py_RETURN_NONE;
}

[[noreturn]] void refuse() {
  PyErr_SetString(PyExc_RuntimeError, "the package overlimit is not imported yet");
  throw PythonError{};
}

PyMethodDef functions[] = {{"_load_hooks", load_hooks, METH_NOARGS,
                            "_load_hooks()\n--\n\nImport overlimit._core_hooks, which the core calls."},
                           {nullptr, nullptr, 0, nullptr}};

}  // namespace

bool add_hooks(PyObject* module) { return PyModule_AddFunctions(module, functions) == 0; }

Object hook(const char* name) {
  if (hooks == nullptr) refuse();
  return required(PyObject_GetAttrString(hooks, name));
}

PyTypeObject* detail_type() {
  if (detail == nullptr) refuse();
  return reinterpret_cast<PyTypeObject*>(detail);
}

}  // namespace overlimit::python
