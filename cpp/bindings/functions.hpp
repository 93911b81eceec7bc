// Functions, methods and properties of Python, each made of a C++ function whose parameters say what it takes
// and whose result says what it returns. What it throws becomes Python's exception.
#pragma once

#include <Python.h>

#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>

#include "errors.hpp"
#include "object.hpp"
#include "overlimit/time.hpp"

namespace overlimit::python {

/// Those by position, borrowed. The values of keywords, if there are any, follow behind them.
using Arguments = std::span<PyObject* const>;

// TypeErrors, thrown as PythonError.
[[noreturn]] void refuse_type(const char* expected, PyObject* given);
[[noreturn]] void refuse_arguments(std::size_t expected, std::size_t given);
[[noreturn]] void refuse_keywords();

/// What a parameter of this type gets of what Python gives. Errors are thrown as PythonError.
template <class Parameter>
struct From;
template <>
struct From<PyObject*> {
  static PyObject* get(PyObject* given) { return given; }
};
template <>
struct From<std::int64_t> {
  static std::int64_t get(PyObject* given) {
    const long long number = PyLong_AsLongLong(given);
    if (number == -1 && PyErr_Occurred() != nullptr) throw PythonError{};
    return number;
  }
};

/// A tuple, or TypeError. Borrowed.
struct Tuple {
  PyObject* object;
  [[nodiscard]] Arguments members() const { return members_of(object); }
};
template <>
struct From<Tuple> {
  static Tuple get(PyObject* given) {
    if (!PyTuple_Check(given)) refuse_type("a tuple", given);
    return {given};
  }
};

/// A new reference to what Python gets for a result.
inline PyObject* returned(Object result) { return result.release(); }
inline PyObject* returned(PyObject* result) { return checked(result); }
inline PyObject* returned(bool result) { return Py_NewRef(result ? Py_True : Py_False); }
inline PyObject* returned(double result) { return PyFloat_FromDouble(result); }
inline PyObject* returned(std::int64_t result) { return PyLong_FromLongLong(result); }
inline PyObject* returned(std::uint64_t result) { return PyLong_FromUnsignedLongLong(result); }
inline PyObject* returned(Duration result) { return PyFloat_FromDouble(result.seconds()); }
inline PyObject* returned(Instant result) { return returned(result.since_epoch()); }

/// How a C++ function is called: with the object that Python calls it on, or the module, before its
/// arguments.
template <class Function>
struct Signature;
template <class Result, class Self, class... Each>
struct Signature<Result (*)(Self, Each...)> {
  static constexpr int kFlags = sizeof...(Each) == 0   ? METH_NOARGS
                                : sizeof...(Each) == 1 ? METH_O
                                                       : METH_FASTCALL;
  template <auto function>
  static Result run(PyObject* self, Arguments arguments, PyObject* names) {
    if (names != nullptr) refuse_keywords();
    if (arguments.size() != sizeof...(Each)) refuse_arguments(sizeof...(Each), arguments.size());
    return [&]<std::size_t... place>(std::index_sequence<place...>)->Result {
      return function(From<Self>::get(self), From<Each>::get(arguments[place])...);
    }
    (std::index_sequence_for<Each...>());
  }
};
template <class Result, class Self>
struct Signature<Result (*)(Self, Arguments)> {
  static constexpr int kFlags = METH_FASTCALL;
  template <auto function>
  static Result run(PyObject* self, Arguments arguments, PyObject* names) {
    if (names != nullptr) refuse_keywords();
    return function(From<Self>::get(self), arguments);
  }
};
template <class Result, class Self>
struct Signature<Result (*)(Self, Arguments, PyObject*)> {
  static constexpr int kFlags = METH_FASTCALL | METH_KEYWORDS;
  template <auto function>
  static Result run(PyObject* self, Arguments arguments, PyObject* names) {
    return function(From<Self>::get(self), arguments, names);
  }
};

/// Calls it with the arguments of Python.
template <auto function>
auto call(PyObject* self, Arguments arguments, PyObject* names = nullptr) {
  return Signature<decltype(+function)>::template run<function>(self, arguments, names);
}

/// The same, as Python sees it.
template <auto function>
PyObject* called(PyObject* self, Arguments arguments, PyObject* names = nullptr) {
  return guarded(static_cast<PyObject*>(nullptr), [&]() -> PyObject* {
    if constexpr (std::is_void_v<decltype(call<function>(self, arguments, names))>) {
      call<function>(self, arguments, names);
      return Py_NewRef(Py_None);
    } else {
      return returned(call<function>(self, arguments, names));
    }
  });
}

/// A function of a module or a method; its doc begins with its signature.
template <auto function>
PyMethodDef method(const char* name, const char* doc) {
  constexpr int kFlags = Signature<decltype(+function)>::kFlags;
  PyCFunction made = nullptr;
  if constexpr (kFlags == METH_NOARGS) {
    made = [](PyObject* self, PyObject*) { return called<function>(self, {}); };
  } else if constexpr (kFlags == METH_O) {
    made = [](PyObject* self, PyObject* one) { return called<function>(self, {&one, 1}); };
  } else if constexpr (kFlags == METH_FASTCALL) {
    made = as_c_function(+[](PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
      return called<function>(self, {arguments, std::size_t(count)});
    });
  } else {
    made = as_c_function(+[](PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* names) {
      return called<function>(self, {arguments, std::size_t(count)}, names);
    });
  }
  return {name, made, kFlags, doc};
}

template <auto function>
PyGetSetDef property(const char* name, const char* doc) {
  return {name, [](PyObject* self, void*) { return called<function>(self, {}); }, nullptr, doc, nullptr};
}

/// A slot of a type whose function takes nothing but the object, such as tp_repr.
template <auto function>
void* unary() {
  return reinterpret_cast<void*>(+[](PyObject* self) { return called<function>(self, {}); });
}

/// The slot of __init__, of arguments by position alone.
template <auto function>
void* init() {
  return reinterpret_cast<void*>(+[](PyObject* self, PyObject* arguments, PyObject* keywords) {
    return guarded(-1, [&] {
      if (keywords != nullptr && PyDict_GET_SIZE(keywords) > 0) refuse_keywords();
      call<function>(self, members_of(arguments));
      return 0;
    });
  });
}

/// Makes a type, and keeps it for ever. PythonError.
PyTypeObject* made_type(PyObject* module, PyType_Spec& spec);
/// The same, which the module shows.
PyTypeObject* add_type(PyObject* module, PyType_Spec& spec);
/// Adds functions to the module. They must live as long as it does. PythonError.
void add_functions(PyObject* module, std::span<PyMethodDef> functions);

}  // namespace overlimit::python
