// What each source adds to overlimit._core, and what is inside the objects that pybind11 has bound.
#pragma once

#include <Python.h>

#include <memory>

#include "overlimit/limit.hpp"
#include "overlimit/redis_location.hpp"
#include "overlimit/store.hpp"

namespace pybind11 {
class module_;
class dict;
}  // namespace pybind11

namespace overlimit::python {

// On the C API, whose objects come and go by the call. PythonError.
void add_clocks(PyObject* module);
void add_manual_clock(PyObject* module);
void add_policies(PyObject* module);
void add_decision(PyObject* module);
void add_details(PyObject* module);
void add_limiter(PyObject* module);
void add_deciding(PyObject* module);  // after the limiter, which gets its methods
void add_operations(PyObject* module);
void add_http_fast_path(PyObject* module);
void add_hooks(PyObject* module);
void add_counters(PyObject* module);
void add_locked_calls(PyObject* module);

// Bound by pybind11.
void bind_calendar(pybind11::module_& module);
void bind_limits(pybind11::module_& module);
void bind_stores(pybind11::module_& module);
void bind_value_store(pybind11::module_& module);
void bind_redis_store(pybind11::module_& module);
void bind_raw_servers(pybind11::module_& module);
void bind_replays(pybind11::module_& module);
void bind_access_logs(pybind11::module_& module);
void bind_many_decisions(pybind11::module_& module);
void bind_pending_calls(pybind11::module_& module);
/// Puts a check before all that it has bound by now: a keyword without UTF-8, such as "\ud800", is a
/// TypeError, where pybind11 would throw out of a C function. PythonError.
void check_keywords(PyObject* module);

/// The store inside a bound store object. TypeError thrown as PythonError.
std::shared_ptr<Store> store_from(PyObject* object);
/// The limit inside a bound limit object. TypeError thrown as PythonError.
Limit limit_from(PyObject* object);
/// Where servers of Redis are, as fields of Python say. TypeError, KeyError.
redis::Location location_from(const pybind11::dict& fields);

}  // namespace overlimit::python
