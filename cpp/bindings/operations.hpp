// What is asked of a store by a function or a method, said once: it blocks the thread that calls it, and
// _later() has an event loop await the same. Only hit, peek and their relatives take shorter ways.
#pragma once

#include <Python.h>

#include <memory>

#include "functions.hpp"
#include "limiter.hpp"
#include "store_task.hpp"

namespace overlimit::python {

using Task = std::unique_ptr<StoreTask>;
inline PyObject* returned(const Task& task) { return perform(*task).release(); }

struct Operation {
  PyMethodDef method;
  /// TypeError for arguments that Python would not give the method, thrown as PythonError.
  Task (*prepare)(PyObject* self, Arguments arguments, PyObject* names);
};

/// One whose method waits for the task that is prepared.
template <auto prepare>
Operation operation(const char* name, const char* doc) {
  return {method<prepare>(name, doc), call<prepare>};
}
/// One whose method takes a shorter way to the same answer.
template <auto now, auto prepare>
Operation operation(const char* name, const char* doc) {
  return {method<now>(name, doc), call<prepare>};
}

/// Adds operations to the module, or to Limiter, and has _later() find them. They must live as long as the
/// module does. PythonError.
void add_functions(PyObject* module, std::span<Operation> operations);
void add_methods(std::span<Operation> operations);

// What prepares them in refunding.cpp.
Task refunding(LimiterState& limiter, PyObject* decision);
Task refunding_part(LimiterState& limiter, PyObject* decision, PyObject* places);
Task settling(LimiterState& limiter, PyObject* decision, PyObject* cost);
Task settling_more(PyObject* module, Tuple limiters, PyObject* decision, PyObject* cost);
Task settling_rest(PyObject* module, Tuple limiters, PyObject* decision, PyObject* cost);

}  // namespace overlimit::python
