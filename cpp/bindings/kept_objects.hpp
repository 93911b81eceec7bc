// Python objects that are no more, for those to come: most decisions and their details live for a moment, and
// to find memory for one takes as long as to decide.
#pragma once

#include <Python.h>

#include <array>
#include <cstddef>

namespace overlimit::python {

/// Objects of one type and size, with a reference to their type each. Guarded by the GIL; without one, there
/// are none.
template <class Kept>
class KeptObjects {
 public:
#ifdef Py_GIL_DISABLED
  Kept* take() { return nullptr; }
  bool keep(Kept& /*object*/) { return false; }
#else
  /// One with a new reference, or nullptr.
  Kept* take() {
    if (count_ == 0) return nullptr;
    Kept* const object = objects_[--count_];
#if defined(Py_TRACE_REFS) || defined(Py_REF_DEBUG)
    _Py_NewReference(reinterpret_cast<PyObject*>(object));
#else
    Py_SET_REFCNT(object, 1);
#endif
    return object;
  }
  /// Takes over an object whose last reference is gone. False: there are enough.
  bool keep(Kept& object) {
    if (count_ == objects_.size()) return false;
    objects_[count_++] = &object;
    return true;
  }

 private:
  std::size_t count_ = 0;
  std::array<Kept*, 16> objects_{};
#endif
};

}  // namespace overlimit::python
