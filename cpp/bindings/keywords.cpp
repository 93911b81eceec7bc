// Refuses keyword arguments that pybind11 cannot show in an error: it would end the process.
#include <pybind11/pybind11.h>

#include "functions.hpp"
#include "module.hpp"

namespace overlimit::python {
namespace {

// What calls all functions that pybind11 has bound: with an array as of 3.1, before with a tuple and a dict.
PyCFunction dispatcher = nullptr;

template <class Function>
Function* as() {
  return reinterpret_cast<Function*>(reinterpret_cast<void (*)()>(dispatcher));
}

/// As errors name it, such as "overlimit._core.MemoryStore.stats".
Object full_name(PyObject* self) {
  const auto* const bound = pybind11::detail::function_record_ptr_from_PyObject(self);
  PyObject* const owner = bound->scope.ptr();
  const bool is_of_type = PyType_Check(owner);
  return required(PyUnicode_FromFormat(
      "%s.%s", is_of_type ? reinterpret_cast<PyTypeObject*>(owner)->tp_name : PyModule_GetName(owner),
      bound->name));
}

bool is_key(PyObject* self, PyObject* key) {
  if (PyUnicode_AsUTF8(key) != nullptr) return true;
  PyErr_Clear();
  return guarded(false, [&] {
    PyErr_Format(PyExc_TypeError, "%U() got an unexpected keyword argument %R", full_name(self).get(), key);
    return false;
  });
}

PyObject* dispatch(PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* names) {
  const Arguments keys = names == nullptr ? Arguments() : members_of(names);
  if (!std::ranges::all_of(keys, [&](PyObject* key) { return is_key(self, key); })) return nullptr;
  return as<PyObject*(PyObject*, PyObject* const*, Py_ssize_t, PyObject*)>()(self, arguments, count, names);
}

PyObject* dispatch_dict(PyObject* self, PyObject* arguments, PyObject* keywords) {
  PyObject* key = nullptr;
  for (Py_ssize_t at = 0; keywords != nullptr && PyDict_Next(keywords, &at, &key, nullptr) != 0;) {
    if (!is_key(self, Object::borrow(key).get())) return nullptr;
  }
  return as<PyObject*(PyObject*, PyObject*, PyObject*)>()(self, arguments, keywords);
}

void check(PyObject* member) {
  if (PyInstanceMethod_Check(member)) member = PyInstanceMethod_GET_FUNCTION(member);
  if (!PyCFunction_Check(member)) return;
  PyMethodDef& definition = *reinterpret_cast<PyCFunctionObject*>(member)->m_ml;
  const bool is_fast = (definition.ml_flags & METH_FASTCALL) != 0;
  const PyCFunction ours = is_fast ? as_c_function(dispatch) : as_c_function(dispatch_dict);
  if (definition.ml_meth != ours) dispatcher = std::exchange(definition.ml_meth, ours);
}

}  // namespace

void check_keywords(PyObject* module) {
  for (const auto& [name, value] : pybind11::handle(module).attr("__dict__").cast<pybind11::dict>()) {
    check(value.ptr());
    if (!PyType_Check(value.ptr())) continue;
    const pybind11::handle members(reinterpret_cast<PyTypeObject*>(value.ptr())->tp_dict);
    for (const auto& [of_type, member] : pybind11::reinterpret_borrow<pybind11::dict>(members))
      check(member.ptr());
  }
}

}  // namespace overlimit::python
