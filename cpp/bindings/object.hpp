// Owning references to Python objects, for code on the C API. The GIL is held wherever one is used.
#pragma once

#include <Python.h>

#include <cstring>
#include <span>
#include <string_view>
#include <utility>

#include "overlimit/non_copyable.hpp"

namespace overlimit::python {

/// Whether the interpreter is going away; other threads than its own then never get the GIL again.
inline bool is_finalizing() {
#if PY_VERSION_HEX >= 0x030d0000
  return Py_IsFinalizing() != 0;
#else
  return _Py_IsFinalizing() != 0;
#endif
}

class Object {
 public:
  Object() = default;
  /// Takes over a new reference; nullptr is allowed.
  static Object steal(PyObject* object) { return Object(object); }
  static Object borrow(PyObject* object) { return Object(Py_XNewRef(object)); }
  Object(Object&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Object& operator=(Object&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  /// A thread that the ending interpreter unwinds runs this without the GIL.
  ~Object() {
    if (object_ != nullptr && !is_finalizing()) Py_DECREF(object_);
  }

  [[nodiscard]] PyObject* get() const { return object_; }
  [[nodiscard]] PyObject* release() { return std::exchange(object_, nullptr); }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  explicit Object(PyObject* object) : object_(object) {}
  PyObject* object_ = nullptr;
};

/// Thrown when a Python exception is set; it stays set.
struct PythonError {};

/// The object, or PythonError for nullptr.
inline PyObject* checked(PyObject* object) {
  if (object == nullptr) throw PythonError{};
  return object;
}

inline Object required(PyObject* object) { return Object::steal(checked(object)); }

/// While a function given to a limiter is called, which may call limiters: it counts as several of Python's
/// levels, since each takes several KB of the thread's stack, and many programs have raised Python's limit.
class RecursionGuard {
 public:
  RecursionGuard() {
    for (; entered_ < kLevels; ++entered_) {
      if (Py_EnterRecursiveCall(" in a function given to a limiter") == 0) continue;
      leave();
      throw PythonError{};
    }
  }
  ~RecursionGuard() { leave(); }
  RecursionGuard(const RecursionGuard&) = delete;
  RecursionGuard& operator=(const RecursionGuard&) = delete;

 private:
  static constexpr int kLevels = 6;

  void leave() noexcept {
    for (; entered_ > 0; --entered_) Py_LeaveRecursiveCall();
  }

  int entered_ = 0;
};

/// The members of a tuple, borrowed.
inline std::span<PyObject* const> members_of(PyObject* tuple) {
  return {PySequence_Fast_ITEMS(tuple), std::size_t(PyTuple_GET_SIZE(tuple))};
}

/// A tuple that takes them, filled before Python code can see it. MemoryError is thrown as PythonError.
inline Object tuple_of(std::span<Object> members) {
  Object tuple = required(PyTuple_New(Py_ssize_t(members.size())));
  for (std::size_t i = 0; i < members.size(); ++i) {
    PyTuple_SET_ITEM(tuple.get(), Py_ssize_t(i), members[i].release());
  }
  return tuple;
}

/// A str of what may be no UTF-8, or cut within a character. PythonError.
inline Object text_of(const char* message) {
  return required(PyUnicode_DecodeUTF8(message, Py_ssize_t(std::strlen(message)), "replace"));
}

/// The UTF-8 of a str, as long as that lives. A lone surrogate, which has none, is thrown as PythonError.
inline std::string_view text_in(PyObject* string) {
  Py_ssize_t size = 0;
  const char* const text = PyUnicode_AsUTF8AndSize(string, &size);
  if (text == nullptr) throw PythonError{};
  return {text, std::size_t(size)};
}

/// A function with other parameters than METH_O has, as a table of methods holds it.
template <class Function>
PyCFunction as_c_function(Function* function) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

}  // namespace overlimit::python
