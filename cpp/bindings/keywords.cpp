// Refuses keyword arguments that pybind11 cannot show in an error: it would end the process.
#include "handles.hpp"

#include "errors.hpp"
#include "free_threading.hpp"
#include "object.hpp"

namespace overlimit::python {
namespace {

/// A function with the check before it, and what its definition points to.
struct Checked {
  Object original;
  Object name;
  Object full_name;
  Object doc;
  PyMethodDef definition;
};

void check_keys(PyObject* keywords, PyObject* function) {
  const ObjectLock lock(keywords);
  PyObject* key = nullptr;
  for (Py_ssize_t at = 0; PyDict_Next(keywords, &at, &key, nullptr) != 0;) {
    if (PyUnicode_AsUTF8(key) != nullptr) continue;
    PyErr_Clear();
    const Object kept = Object::borrow(key);
    PyErr_Format(PyExc_TypeError, "%U() got an unexpected keyword argument %R", function, kept.get());
    throw PythonError{};
  }
}

PyObject* call(PyObject* self, PyObject* arguments, PyObject* keywords) {
  return guarded(static_cast<PyObject*>(nullptr), [&] {
    const Checked& function = *static_cast<Checked*>(PyCapsule_GetPointer(self, nullptr));
    if (keywords != nullptr) check_keys(keywords, function.full_name.get());
    return checked(PyObject_Call(function.original.get(), arguments, keywords));
  });
}

void forget(PyObject* capsule) { delete static_cast<Checked*>(PyCapsule_GetPointer(capsule, nullptr)); }

const char* utf8(PyObject* text) {
  const char* bytes = PyUnicode_AsUTF8(text);
  if (bytes == nullptr) throw PythonError{};
  return bytes;
}

// The new function holds its Checked in a capsule, whose original Python code cannot reach.
Object checked_function(const char* owner, PyObject* name, PyObject* original) {
  auto function = std::make_unique<Checked>();
  function->original = Object::borrow(original);
  function->name = Object::borrow(name);
  function->full_name = required(PyUnicode_FromFormat("%s.%U", owner, function->name.get()));
  function->doc = required(PyObject_GetAttrString(original, "__doc__"));
  const char* doc = function->doc.get() == Py_None ? nullptr : utf8(function->doc.get());
  function->definition = {utf8(function->name.get()),
                          reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(call)),
                          METH_VARARGS | METH_KEYWORDS, doc};
  const Object capsule = required(PyCapsule_New(function.get(), nullptr, forget));
  return required(PyCFunction_New(&function.release()->definition, capsule.get()));
}

Object checked_property(const char* owner, PyObject* name, PyObject* original) {
  const Object getter = required(PyObject_GetAttrString(original, "fget"));
  const Object doc = required(PyObject_GetAttrString(original, "__doc__"));
  const Object function = checked_function(owner, name, getter.get());
  return required(PyObject_CallFunctionObjArgs(reinterpret_cast<PyObject*>(&PyProperty_Type), function.get(),
                                               Py_None, Py_None, doc.get(), nullptr));
}

void check_members(PyObject* owner) {
  const auto* type = reinterpret_cast<PyTypeObject*>(owner);
  const Object members = required(PyDict_Copy(type->tp_dict));
  PyObject* name = nullptr;
  PyObject* member = nullptr;
  for (Py_ssize_t at = 0; PyDict_Next(members.get(), &at, &name, &member) != 0;) {
    Object replacement;
    if (PyInstanceMethod_Check(member)) {
      PyObject* const function = PyInstanceMethod_GET_FUNCTION(member);
      replacement = required(PyInstanceMethod_New(checked_function(type->tp_name, name, function).get()));
    } else if (Py_IS_TYPE(member, &PyProperty_Type)) {
      replacement = checked_property(type->tp_name, name, member);
    }
    if (replacement && PyObject_SetAttr(owner, name, replacement.get()) < 0) throw PythonError{};
  }
}

}  // namespace

bool check_keywords(PyObject* module) {
  return guarded(false, [&] {
    const Object members = required(PyDict_Copy(PyModule_GetDict(module)));
    PyObject* name = nullptr;
    PyObject* value = nullptr;
    for (Py_ssize_t at = 0; PyDict_Next(members.get(), &at, &name, &value) != 0;) {
      if (PyType_Check(value)) check_members(value);
      if (!PyCFunction_Check(value)) continue;
      const Object function = checked_function(PyModule_GetName(module), name, value);
      if (PyObject_SetAttr(module, name, function.get()) < 0) throw PythonError{};
    }
    return true;
  });
}

}  // namespace overlimit::python
