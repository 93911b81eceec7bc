// What pybind11 binds. module.cpp, and stores.cpp for the stores, put it together.
#pragma once

#include <pybind11/pybind11.h>

namespace overlimit::python {

void bind_calendar(pybind11::module_& module);
void bind_limits(pybind11::module_& module);
void bind_stores(pybind11::module_& module);
void bind_redis_store(pybind11::module_& module);
void bind_replays(pybind11::module_& module);
void bind_access_logs(pybind11::module_& module);
void bind_many_decisions(pybind11::module_& module);
void bind_counter_layout(pybind11::module_& module);
void bind_pending_calls(pybind11::module_& module);

}  // namespace overlimit::python
