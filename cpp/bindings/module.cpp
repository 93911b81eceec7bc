// overlimit._core. The hot types are on the C API; module.hpp says what pybind11 binds.
#include "module.hpp"

#include <pybind11/stl.h>

#include "charges.hpp"
#include "functions.hpp"
#include "given.hpp"
#include "overlimit/errors.hpp"

namespace overlimit::python {

namespace {

void bind_errors() {
  pybind11::register_local_exception_translator([](std::exception_ptr error) {
    if (!error) return;
    try {
      std::rethrow_exception(error);
    } catch (const InvalidLimit&) {
      set_python_error();
    } catch (const StoreError&) {
      set_python_error();
    } catch (const pybind11::cast_error&) {
      PyErr_SetString(PyExc_RuntimeError,
                      "this object was not initialised: its __init__ was never called or did not finish");
    }
  });
}

template <std::size_t size>
pybind11::tuple seconds_of(const std::array<Duration, size>& bounds) {
  std::array<double, size> seconds{};
  std::ranges::transform(bounds, seconds.begin(), &Duration::seconds);
  return pybind11::cast(seconds);
}

// How statistics and metrics are counted, for those that read slots of any process.
void bind_counter_layout(const pybind11::module_& module) {
  pybind11::dict places;
  for (const Counted& each : kCounted) places[pybind11::cast(each.name)] = place_of(each);
  module.attr("_PLACES") = places;
  module.attr("_SLOT") =
      "=" + std::to_string(CounterSlot::kKeyBytes) + "s" + std::to_string(CounterSlot::kNumbers) + "Q";
  module.attr("_STATUSES") = pybind11::cast(kStatusNames);
  module.attr("_SOURCES") = pybind11::cast(kSourceNames);
  module.attr("_FAILURES") = pybind11::cast(kFailureNames);
  module.attr("_BREAKER_STATES") = pybind11::cast(kBreakerNames);
  module.attr("_LATENCY_BOUNDS") = seconds_of(kLatencyBounds);
  module.attr("_WAIT_BOUNDS") = seconds_of(kWaitBounds);
}

template <class Bound>
std::shared_ptr<Bound> bound_in(PyObject* object, const char* expected) {
  const pybind11::handle handle(object);
  if (!pybind11::isinstance<Bound>(handle)) refuse_type(expected, object);
  try {
    return pybind11::cast<std::shared_ptr<Bound>>(handle);
  } catch (const pybind11::cast_error&) {
    raise(PyExc_RuntimeError,
          "this %.100s was not initialised: its __init__ was never called or did not finish",
          Py_TYPE(object)->tp_name);
  }
}

}  // namespace

std::shared_ptr<Store> store_from(PyObject* object) { return bound_in<Store>(object, "a store"); }

Limit limit_from(PyObject* object) { return *bound_in<Limit>(object, "a limit"); }

}  // namespace overlimit::python

// Before 3.14 the standard library's weak dictionaries, which the package uses, need the GIL.
#if PY_VERSION_HEX >= 0x030e0000
PYBIND11_MODULE(_core_in_main, module, pybind11::mod_gil_not_used()) {
#else
PYBIND11_MODULE(_core_in_main, module) {
#endif
  using namespace overlimit::python;
  module.doc() = "The C++ core of overlimit.";
  module.attr("__version__") = OVERLIMIT_VERSION;
  module.attr("MAX_IDENTIFIERS") = kMaxIdentifiers;
  module.attr("MAX_CHARGES") = overlimit::kMaxCharges;
  module.attr("MAX_CELLS") = kMaxCells;
  bind_errors();
  bind_calendar(module);
  bind_limits(module);
  bind_stores(module);
  bind_replays(module);
  bind_access_logs(module);
  bind_many_decisions(module);
  bind_counter_layout(module);
  bind_pending_calls(module);
  check_keywords(module.ptr());
  with_python_errors([&] {
    for (auto* const add :
         {add_clocks, add_manual_clock, add_policies, add_decision, add_details, add_limiter, add_deciding,
          add_operations, add_http_fast_path, add_hooks, add_counters, add_locked_calls}) {
      add(module.ptr());
    }
  });
}

namespace {

PyModuleDef* definition_in_main() { return reinterpret_cast<PyModuleDef*>(PyInit__core_in_main()); }

/// Refuses every interpreter but the main one, whose objects are kept here: ImportError, before pybind11 is
/// reached, whose start never ends in another interpreter until Python 3.12.
PyObject* create_in_main(PyObject* spec, PyModuleDef*) {
  if (PyInterpreterState_Get() != PyInterpreterState_Main()) {
    PyErr_SetString(
        PyExc_ImportError,
        "overlimit works in the main interpreter of a process only, and this is a sub-interpreter: "
        "with mod_wsgi, set 'WSGIApplicationGroup %{GLOBAL}', with uWSGI 'single-interpreter = "
        "true'; elsewhere use threads or processes");
    return nullptr;
  }
  PyModuleDef* const definition = definition_in_main();
  return definition == nullptr ? nullptr : PyModule_FromDefAndSpec(definition, spec);
}

int execute_in_main(PyObject* module) { return PyModule_ExecDef(module, definition_in_main()); }

PyModuleDef_Slot slots[] = {
  {Py_mod_create, reinterpret_cast<void*>(create_in_main)},
  {Py_mod_exec, reinterpret_cast<void*>(execute_in_main)},
#if PY_VERSION_HEX >= 0x030c0000
  // So that Python leaves it to us to refuse those with a GIL of their own.
  {Py_mod_multiple_interpreters, Py_MOD_PER_INTERPRETER_GIL_SUPPORTED},
#endif
#if PY_VERSION_HEX >= 0x030e0000
  {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
  {0, nullptr}
};

PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_core", nullptr, 0, nullptr, slots, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit__core() { return PyModuleDef_Init(&definition); }
