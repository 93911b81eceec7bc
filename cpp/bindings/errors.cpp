#include "errors.hpp"

#include "overlimit/errors.hpp"
#include "overlimit/out_of_memory.hpp"

#include <new>
#include <stdexcept>

#include "clock.hpp"
#include "object.hpp"

namespace overlimit::python {
namespace {

Object error_class(const char* name) {
  const Object module = Object::steal(PyImport_ImportModule("overlimit.errors"));
  return Object::steal(module ? PyObject_GetAttrString(module.get(), name) : nullptr);
}

void set_error(const char* name, const char* message) {
  const Object type = error_class(name);
  if (type) PyErr_SetString(type.get(), message);
}

void set_store_error(const char* name, const StoreError& error) {
  const Object type = error_class(name);
  if (!type) return;
  const Object message = text_of(error.what());
  const Object instance =
      Object::steal(message ? PyObject_CallFunctionObjArgs(type.get(), message.get(), nullptr) : nullptr);
  if (!instance) return;
  const Object retry_after = Object::steal(PyFloat_FromDouble(seconds_from(error.retry_after())));
  if (!retry_after || PyObject_SetAttrString(instance.get(), "retry_after", retry_after.get()) < 0) return;
  PyObject* const maybe_charged = error.maybe_charged() ? Py_True : Py_False;
  if (PyObject_SetAttrString(instance.get(), "maybe_charged", maybe_charged) < 0) return;
  PyErr_SetObject(type.get(), instance.get());
}

void translate() {
  try {
    throw;
  } catch (const PythonError&) {
  } catch (const WaitInterrupted&) {
    if (PyErr_Occurred() == nullptr) PyErr_SetNone(PyExc_KeyboardInterrupt);
  } catch (const InvalidLimit& error) {
    set_error("InvalidLimit", error.what());
  } catch (const StoreTimeout& error) {
    set_store_error("StoreTimeout", error);
  } catch (const StoreUnavailable& error) {
    set_store_error("StoreUnavailable", error);
  } catch (const ScriptError& error) {
    set_store_error("ScriptError", error);
  } catch (const StoreConfigError& error) {
    set_store_error("StoreConfigError", error);
  } catch (const StoreError& error) {
    set_store_error("StoreError", error);
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
  const Object module = Object::steal(checked(PyImport_ImportModule("overlimit._messages.texts")));
  const Object shown =
      Object::steal(checked(PyObject_CallMethod(module.get(), "short_repr", "(O)", argument)));
  PyErr_Format(type, format, shown.get());
  throw PythonError{};
}

void set_python_error() noexcept {
  try {
    translate();
  } catch (const abi::__forced_unwind&) {
    stay_forever();
  } catch (...) {
    PyErr_SetString(PyExc_RuntimeError, "an unknown C++ exception");
  }
}

}  // namespace overlimit::python
