#include "errors.hpp"

#include "counters.hpp"
#include "hooks.hpp"
#include "overlimit/errors.hpp"
#include "raised_error.hpp"
#include "waits.hpp"

namespace overlimit::python {
namespace {

void set_error(PyObject* error) { PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error)), error); }

void set_store_error(const StoreError& error) {
  if (const auto* const raised = dynamic_cast<const RaisedStoreError*>(&error))
    return set_error(raised->error());
  const Object retry_after = required(PyFloat_FromDouble(error.retry_after().seconds()));
  const Object made =
      call_hook("store_error", text_of(kFailureNames[std::size_t(error.kind())]).get(),
                text_of(error.what()).get(), retry_after.get(), error.maybe_charged() ? Py_True : Py_False);
  set_error(made.get());
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

Object taken_error() {
  PyObject* type = nullptr;
  PyObject* error = nullptr;
  PyObject* traceback = nullptr;
  PyErr_Fetch(&type, &error, &traceback);
  PyErr_NormalizeException(&type, &error, &traceback);
  const Object kept_type = Object::steal(type);
  const Object kept_traceback = Object::steal(traceback);
  if (traceback != nullptr) PyException_SetTraceback(error, traceback);
  return Object::steal(error);
}

void throw_error(PyObject* error) {
  const Object told = call_hook("told_of_store_error", error);
  if (told.get() == Py_None) {
    set_error(error);
    throw PythonError{};
  }
  const auto fields = members_of(told.get());
  const auto name = std::ranges::find(kFailureNames, text_in(fields[0]));
  const std::shared_ptr<PyObject> kept(Py_NewRef(error), [](PyObject* object) {
    if (is_finalizing()) return;
    const GilHeld held;
    Py_DECREF(object);
  });
  throw RaisedStoreError(StoreError::Kind(name - kFailureNames.begin()), std::string(text_in(fields[1])),
                         fields[2] == Py_True, Duration(PyLong_AsLongLong(fields[3])), kept);
}

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
