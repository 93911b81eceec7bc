// What guards the state of the bindings on an interpreter without the GIL (PEP 703). Where there is a GIL, it
// does, and all of this costs nothing.
#pragma once

#include <Python.h>

#ifdef Py_GIL_DISABLED
#include <atomic>
#endif

#include "object.hpp"
#include "overlimit/non_copyable.hpp"

namespace overlimit::python {

/// A number that threads read and change, each time in one step.
#ifdef Py_GIL_DISABLED
template <class Number>
using Shared = std::atomic<Number>;
#else
template <class Number>
using Shared = Number;
#endif

/// Holds the lock of a Python object. Like the GIL it is given up while Python waits or runs other code, so
/// it is to be held where neither happens; and os.fork() finds nobody holding it.
class ObjectLock : NonCopyable {
 public:
#ifdef Py_GIL_DISABLED
  explicit ObjectLock(PyObject* object) { PyCriticalSection_Begin(&section_, object); }
  ~ObjectLock() { PyCriticalSection_End(&section_); }

 private:
  PyCriticalSection section_;
#else
  explicit ObjectLock(PyObject* /*object*/) {}
  ~ObjectLock() {}
#endif
};

/// What a dict has for a key; empty if nothing. PythonError.
inline Object item_of(PyObject* dict, PyObject* key) {
#if PY_VERSION_HEX >= 0x030d0000
  PyObject* found = nullptr;
  if (PyDict_GetItemRef(dict, key, &found) < 0) throw PythonError{};
  return Object::steal(found);
#else
  PyObject* const found = PyDict_GetItemWithError(dict, key);
  if (found == nullptr && PyErr_Occurred() != nullptr) throw PythonError{};
  return Object::borrow(found);
#endif
}

}  // namespace overlimit::python
