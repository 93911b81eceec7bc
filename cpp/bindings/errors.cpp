#include "errors.hpp"

#include "counters.hpp"
#include "hooks.hpp"
#include "overlimit/errors.hpp"

namespace overlimit::python {
namespace {

void set_store_error(const StoreError& error) {
  const Object retry_after = required(PyFloat_FromDouble(error.retry_after().seconds()));
  const Object made =
      call_hook("store_error", text_of(kFailureNames[std::size_t(error.kind())]).get(),
                text_of(error.what()).get(), retry_after.get(), error.maybe_charged() ? Py_True : Py_False);
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(made.get())), made.get());
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
