#include "errors.hpp"

#include <array>

#include "overlimit/errors.hpp"

#include "clock.hpp"
#include "hooks.hpp"

namespace overlimit::python {
namespace {

constexpr std::array kStoreErrors{"StoreTimeout", "StoreUnavailable", "StoreConfigError", "ScriptError"};

void set_store_error(const StoreError& error) {
  const Object message = text_of(error.what());
  const Object retry_after = required(PyFloat_FromDouble(error.retry_after().seconds()));
  PyObject* const maybe_charged = error.maybe_charged() ? Py_True : Py_False;
  const Object instance = call_hook(kStoreErrors[std::size_t(error.kind())], checked(message.get()));
  if (PyObject_SetAttrString(instance.get(), "retry_after", retry_after.get()) == 0 &&
      PyObject_SetAttrString(instance.get(), "maybe_charged", maybe_charged) == 0) {
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(instance.get())), instance.get());
  }
}

void translate() {
  try {
    throw;
  } catch (const PythonError&) {
  } catch (const WaitInterrupted&) {
    if (PyErr_Occurred() == nullptr) PyErr_SetNone(PyExc_KeyboardInterrupt);
  } catch (const InvalidLimit& error) {
    PyErr_SetString(hook("InvalidLimit").get(), error.what());
  } catch (const StoreError& error) {
    set_store_error(error);
  } catch (const OutOfMemory& error) {
    PyErr_SetString(PyExc_MemoryError, error.what());
  } catch (const std::bad_alloc&) {
    PyErr_SetString(PyExc_MemoryError, "this process has no memory left");
  } catch (const std::logic_error& error) {
    PyErr_SetString(PyExc_ValueError, error.what());
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
}

}  // namespace

void raise_about(PyObject* type, const char* format, PyObject* argument) {
  PyErr_Format(type, format, call_hook("short_repr", argument).get());
  throw PythonError{};
}

void set_python_error() noexcept {
  try {
    staying_when_ended(translate);
  } catch (const PythonError&) {
  } catch (...) {
    PyErr_SetString(PyExc_RuntimeError, "an unknown C++ exception");
  }
}

}  // namespace overlimit::python
