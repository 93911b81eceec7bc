// Calls under a lock of Python's that a signal handler cannot break, whenever it raises.
#include "errors.hpp"
#include "handles.hpp"
#include "object.hpp"

namespace overlimit::python {
namespace {

/// Holds a threading.RLock. Taking it may raise, and has not taken it then.
class Held : NonCopyable {
 public:
  explicit Held(PyObject* lock) : lock_(lock) { required(PyObject_CallMethod(lock, "acquire", nullptr)); }
  /// What the call has raised stays set.
  ~Held() {
    PyObject* type = nullptr;
    PyObject* value = nullptr;
    PyObject* traceback = nullptr;
    PyErr_Fetch(&type, &value, &traceback);
    if (!Object::steal(PyObject_CallMethod(lock_, "release", nullptr))) PyErr_WriteUnraisable(lock_);
    PyErr_Restore(type, value, traceback);
  }

 private:
  PyObject* lock_;
};

// A with statement lets signal handlers run between taking the lock and entering its block, as of
// Python 3.14; with threads that run at once the lock is often waited for, and a signal comes meanwhile.
PyObject* call_locked(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  return guarded(static_cast<PyObject*>(nullptr), [&] {
    if (count < 2) raise_type_error("_call_locked takes a lock, a function and its arguments");
    const Held held(arguments[0]);
    return checked(PyObject_Vectorcall(arguments[1], arguments + 2, std::size_t(count) - 2, nullptr));
  });
}

PyMethodDef functions[] = {{"_call_locked", as_c_function(call_locked), METH_FASTCALL,
                            "_call_locked(lock, function, /, *arguments)\n--\n\nReturn what the function "
                            "returns, called while the lock is held, whatever signal handlers raise."},
                           {nullptr, nullptr, 0, nullptr}};

}  // namespace

bool add_locked_calls(PyObject* module) { return PyModule_AddFunctions(module, functions) == 0; }

}  // namespace overlimit::python
