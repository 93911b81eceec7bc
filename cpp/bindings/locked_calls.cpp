// Calls under a lock of Python's that a signal handler cannot break, whenever it raises.
#include "functions.hpp"
#include "module.hpp"
#include "waits.hpp"

namespace overlimit::python {
namespace {

/// Holds a threading.RLock. Taking it may raise, and has not taken it then.
class Held : NonCopyable {
 public:
  explicit Held(PyObject* lock) : lock_(lock) { required(PyObject_CallMethod(lock, "acquire", nullptr)); }
  /// What the call has raised stays set.
  ~Held() {
    TakenError error;
    if (!Object::steal(PyObject_CallMethod(lock_, "release", nullptr))) PyErr_WriteUnraisable(lock_);
    error.set();
  }

 private:
  PyObject* lock_;
};

// A with statement lets signal handlers run between taking the lock and entering its block, as of
// Python 3.14; with threads that run at once the lock is often waited for, and a signal comes meanwhile.
PyObject* call_locked(PyObject*, Arguments arguments) {
  if (arguments.size() < 2) raise_type_error("_call_locked takes a lock, a function and its arguments");
  const Held held(arguments[0]);
  return checked(PyObject_Vectorcall(arguments[1], arguments.data() + 2, arguments.size() - 2, nullptr));
}

PyMethodDef locked_call_functions[] = {method<call_locked>(
    "_call_locked",
    "_call_locked(lock, function, /, *arguments)\n--\n\nReturn what the function returns, "
    "called while the lock is held, whatever signal handlers raise.")};

}  // namespace

void add_locked_calls(PyObject* module) { add_functions(module, locked_call_functions); }

}  // namespace overlimit::python
