#include "counting.hpp"

#include <algorithm>

#include "errors.hpp"
#include "hooks.hpp"
#include "policy.hpp"

namespace overlimit::python {
namespace {

CounterSlot& new_counters_of_store(PyObject* store) {
  const Object endpoint = call_hook("endpoint_of", store);
  const char* const text = PyUnicode_AsUTF8(endpoint.get());
  if (text == nullptr) throw PythonError{};
  return slot_of(SlotKind::store, text);
}

void count_end_of_wait(CounterSlot& counters, Duration wait) {
  counters.add(place_of("waits") + place_among(kWaitBounds, wait));
  counters.add(place_of("wait_micros"), std::uint64_t(std::max<std::int64_t>(0, wait.micros())));
}

}  // namespace

CounterSlot& counters_of_policy(const LimiterState& limiter) {
  return slot_of(SlotKind::policy, shown_name(limiter.identity));
}

void find_counters(LimiterState& limiter) {
  find_counters(limiter.present_policy().get());
  const bool can_fail = limiter.store->waits() || limiter.store->waits_seldom();
  if (limiter.counters_of_store != nullptr || !can_fail) return;
  limiter.counters_of_store = &new_counters_of_store(limiter.store_object.get());
}

PyObject* count_wait(PyObject* self, PyObject* microseconds) {
  return guarded(static_cast<PyObject*>(nullptr), [&] {
    CounterSlot& counters = counters_of_policy(state_of(self));
    if (microseconds == Py_None) {
      open_counters_file();
      counters.add(place_of("waits_begun"));
      return Py_NewRef(Py_None);
    }
    const Duration wait(PyLong_AsLongLong(microseconds));
    if (PyErr_Occurred() != nullptr) throw PythonError{};
    count_end_of_wait(counters, wait);
    return Py_NewRef(Py_None);
  });
}

}  // namespace overlimit::python
