// Refuses keyword arguments that pybind11 cannot show in an error: it would end the process.
#include <pybind11/pybind11.h>

#include "functions.hpp"
#include "module.hpp"

namespace overlimit::python {
namespace {

PyCFunction dispatcher = nullptr;  // of all functions that pybind11 has bound

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
  return guarded(false, [&]() -> bool {
    raise(PyExc_TypeError, "%U() got an unexpected keyword argument %R", full_name(self).get(), key);
  });
}

PyObject* dispatch(PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* names) {
  const Arguments keys = names == nullptr ? Arguments() : members_of(names);
  if (!std::ranges::all_of(keys, [&](PyObject* key) { return is_key(self, key); })) return nullptr;
  const auto original = reinterpret_cast<decltype(&dispatch)>(reinterpret_cast<void (*)()>(dispatcher));
  return original(self, arguments, count, names);
}

void check(PyObject* member) {
  if (PyInstanceMethod_Check(member)) member = PyInstanceMethod_GET_FUNCTION(member);
  if (!PyCFunction_Check(member)) return;
  PyMethodDef& definition = *reinterpret_cast<PyCFunctionObject*>(member)->m_ml;
  const PyCFunction ours = as_c_function(dispatch);
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
