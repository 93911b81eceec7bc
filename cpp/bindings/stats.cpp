#include "stats.hpp"

#include "clock.hpp"
#include "counters.hpp"
#include "errors.hpp"
#include "hooks.hpp"
#include "limiter.hpp"
#include "object.hpp"
#include "policy.hpp"

namespace overlimit::python {
namespace {

void set(const Object& dict, const char* key, Object value) {
  if (PyDict_SetItemString(dict.get(), key, checked(value.get())) < 0) throw PythonError{};
}

Object number(std::uint64_t count) { return Object::steal(PyLong_FromUnsignedLongLong(count)); }

Object errors_dict(const Stats& stats) {
  Object dict = required(PyDict_New());
  for (std::size_t i = 0; i < kFailureNames.size(); ++i)
    set(dict, kFailureNames[i], number(stats.of_store[place_of("errors") + i]));
  return dict;
}

// As text, since JSON has neither numbers for keys nor an infinite one.
Object bound_in_seconds(std::size_t place) {
  if (place == kLatencyBounds.size()) return required(PyUnicode_FromString("inf"));
  const Object seconds = required(PyFloat_FromDouble(kLatencyBounds[place].seconds()));
  return required(PyObject_Str(seconds.get()));
}

Object latency_dict(const Stats& stats) {
  Object dict = required(PyDict_New());
  for (std::size_t i = 0; i <= kLatencyBounds.size(); ++i) {
    const Object bound = bound_in_seconds(i);
    const Object count = number(stats.of_store[place_of("latencies") + i]);
    if (PyDict_SetItem(dict.get(), bound.get(), checked(count.get())) < 0) throw PythonError{};
  }
  return dict;
}

CounterSlot& counters_of_policy(const LimiterState& limiter) {
  return slot_of(SlotKind::policy, shown_name(limiter.identity));
}

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

bool has_one_of(const LimiterState& limiter, std::span<const Charge> charges, ChargeBits crowded) {
  for (ChargeBits left = crowded; left != 0; left &= left - 1) {
    if (charges[std::size_t(std::countr_zero(left))].policy->identity() == limiter.identity) return true;
  }
  return false;
}

}  // namespace

void Stats::clear() {
  for (Count* const count : {&calls, &local, &crowded, &leased, &refusals}) *count = 0;
  std::ranges::fill(of_store, 0);
}

PyObject* stats_dict(const Stats& stats, BreakerState breaker, const LeaseCounts& leased) {
  Object dict = required(PyDict_New());
  set(dict, "calls", number(stats.calls));
  set(dict, "errors", errors_dict(stats));
  set(dict, "timeouts", number(stats.of_store[place_of("errors") + std::size_t(StoreError::Kind::timeout)]));
  set(dict, "local", number(stats.local));
  set(dict, "crowded", number(stats.crowded));
  set(dict, "leased", number(stats.leased));
  set(dict, "refusals", number(stats.refusals));
  set(dict, "asked", number(stats.of_store[place_of("commands")]));
  set(dict, "held", number(leased.held));
  set(dict, "returned", number(leased.returned));
  set(dict, "lapsed", number(leased.lapsed));
  set(dict, "restored", number(stats.of_store[place_of("restored")]));
  set(dict, "breaker", Object::steal(PyUnicode_FromString(kBreakerNames[std::size_t(breaker)])));
  set(dict, "latency", latency_dict(stats));
  return dict.release();
}

// (how long a lease lasts at most in microseconds, how many units are leased)
PyObject* lease_bounds(PyObject* self, PyObject*) {
  return guarded(static_cast<PyObject*>(nullptr), [&] {
    const LimiterState& limiter = state_of(self);
    const Object policy = limiter.present_policy();
    const Duration longest = limiter.store->longest_lease(compiled(policy.get()));
    const std::uint64_t held = limiter.store->leased(limiter.identity).held;
    return checked(Py_BuildValue("(LK)", static_cast<long long>(longest.micros()),
                                 static_cast<unsigned long long>(held)));
  });
}

void count_of_store(std::span<LimiterState* const> limiters, std::size_t place, std::uint64_t count) {
  for (LimiterState* const limiter : limiters) limiter->stats.of_store[place] += count;
  CounterSlot* const counters = limiters.empty() ? nullptr : limiters.front()->counters_of_store;
  if (counters != nullptr) counters->add(place, count);
}

void count_basis(std::span<LimiterState* const> limiters, const Basis& basis) {
  if (basis.commands == 0 && basis.source == Source::store) return;
  for (LimiterState* const limiter : limiters) {
    if (basis.source == Source::refusal) ++limiter->stats.refusals;
    if (basis.source == Source::lease) ++limiter->stats.leased;
  }
  count_of_store(limiters, place_of("commands"), basis.commands);
  count_restored(limiters, basis);
}

void count_restored(std::span<LimiterState* const> limiters, const Basis& basis) {
  if (basis.restored == 0) return;
  count_of_store(limiters, place_of("restored"), basis.restored);
  const Object count = number(basis.restored);
  call_hook("warn_of_lost_counts", limiters.front()->store_object.get(), checked(count.get()));
}

void count_crowded(std::span<LimiterState* const> limiters, std::span<const Charge> charges,
                   ChargeBits crowded, PyObject* store) {
  bool is_first = false;
  for (LimiterState* const limiter : limiters) {
    if (!has_one_of(*limiter, charges, crowded)) continue;
    is_first = limiter->stats.crowded++ == 0 || is_first;
    counters_of_policy(*limiter).add(place_of("crowded"));
  }
  if (is_first) call_hook("warn_of_crowded_store", store);
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
