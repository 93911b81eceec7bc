#include "functions.hpp"

namespace overlimit::python {

void refuse_type(const char* expected, PyObject* given) {
  raise(PyExc_TypeError, "expected %s, not %.100s", expected, Py_TYPE(given)->tp_name);
}

void refuse_arguments(std::size_t expected, std::size_t given) {
  raise(PyExc_TypeError, "this function takes %zu arguments (%zu given)", expected, given);
}

void refuse_keywords() { raise_type_error("this function takes no keyword arguments"); }

PyTypeObject* made_type(PyObject* module, PyType_Spec& spec) {
  return reinterpret_cast<PyTypeObject*>(checked(PyType_FromModuleAndSpec(module, &spec, nullptr)));
}

PyTypeObject* add_type(PyObject* module, PyType_Spec& spec) {
  PyTypeObject* const made = made_type(module, spec);
  if (PyModule_AddType(module, made) < 0) throw PythonError{};
  return made;
}

void add_functions(PyObject* module, std::span<PyMethodDef> functions) {
  const Object name = required(PyModule_GetNameObject(module));
  for (PyMethodDef& each : functions) {
    const Object function = required(PyCFunction_NewEx(&each, module, name.get()));
    if (PyModule_AddObjectRef(module, each.ml_name, function.get()) < 0) throw PythonError{};
  }
}

}  // namespace overlimit::python
