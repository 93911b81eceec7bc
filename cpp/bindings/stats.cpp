#include "stats.hpp"

#include "clock.hpp"
#include "counters.hpp"
#include "counting.hpp"
#include "errors.hpp"
#include "hooks.hpp"
#include "limiter.hpp"
#include "object.hpp"
#include "policy.hpp"

namespace overlimit::python {
namespace {

constexpr std::array<const char*, kKindsOfFailure> kFailureNames{"timeout", "unavailable", "config",
                                                                 "script"};
constexpr std::array kBreakerNames{"closed", "open", "half_open"};

void set(const Object& dict, const char* key, Object value) {
  if (PyDict_SetItemString(dict.get(), key, checked(value.get())) < 0) throw PythonError{};
}

Object number(std::uint64_t count) { return Object::steal(PyLong_FromUnsignedLongLong(count)); }

Object errors_dict(const Stats& stats) {
  Object dict = required(PyDict_New());
  for (std::size_t i = 0; i < kKindsOfFailure; ++i) set(dict, kFailureNames[i], number(stats.errors[i]));
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
  for (std::size_t i = 0; i < stats.latencies.size(); ++i) {
    const Object bound = bound_in_seconds(i);
    const Object count = number(stats.latencies[i]);
    if (PyDict_SetItem(dict.get(), bound.get(), checked(count.get())) < 0) throw PythonError{};
  }
  return dict;
}

bool has_one_of(const LimiterState& limiter, std::span<const Charge> charges, ChargeBits crowded) {
  for (ChargeBits left = crowded; left != 0; left &= left - 1) {
    if (charges[std::size_t(std::countr_zero(left))].policy->identity() == limiter.identity) return true;
  }
  return false;
}

}  // namespace

const char* name_of(StoreError::Kind failure) { return kFailureNames[std::size_t(failure)]; }

static_assert(place::kLatencies + kLatencyBounds.size() + 1 <= place::kCommands);

void Stats::count_latency(Duration duration) { ++latencies[place_of_latency(duration)]; }

void Stats::clear() {
  for (Count* const count : {&calls, &local, &crowded, &leased, &refusals, &asked, &restored}) *count = 0;
  std::ranges::fill(errors, 0);
  std::ranges::fill(latencies, 0);
}

PyObject* stats_dict(const Stats& stats, BreakerState breaker, const LeaseCounts& leased) {
  Object dict = required(PyDict_New());
  set(dict, "calls", number(stats.calls));
  set(dict, "errors", errors_dict(stats));
  set(dict, "timeouts", number(stats.errors[std::size_t(StoreError::Kind::timeout)]));
  set(dict, "local", number(stats.local));
  set(dict, "crowded", number(stats.crowded));
  set(dict, "leased", number(stats.leased));
  set(dict, "refusals", number(stats.refusals));
  set(dict, "asked", number(stats.asked));
  set(dict, "held", number(leased.held));
  set(dict, "returned", number(leased.returned));
  set(dict, "lapsed", number(leased.lapsed));
  set(dict, "restored", number(stats.restored));
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

void count_basis(std::span<LimiterState* const> limiters, const Basis& basis) {
  if (basis.commands == 0 && basis.source == Source::store) return;
  for (LimiterState* const limiter : limiters) {
    limiter->stats.asked += basis.commands;
    if (basis.source == Source::refusal) ++limiter->stats.refusals;
    if (basis.source == Source::lease) ++limiter->stats.leased;
  }
  CounterSlot* const counters = limiters.front()->counters_of_store;
  if (basis.commands > 0 && counters != nullptr) counters->add(place::kCommands, basis.commands);
  count_restored(limiters, basis);
}

void count_restored(std::span<LimiterState* const> limiters, const Basis& basis) {
  if (basis.restored == 0) return;
  for (LimiterState* const limiter : limiters) limiter->stats.restored += basis.restored;
  const LimiterState& first = *limiters.front();
  if (first.counters_of_store != nullptr) first.counters_of_store->add(place::kRestored, basis.restored);
  const Object count = number(basis.restored);
  call_hook("warn_of_lost_counts", first.store_object.get(), checked(count.get()));
}

void count_crowded(std::span<LimiterState* const> limiters, std::span<const Charge> charges,
                   ChargeBits crowded, PyObject* store) {
  bool is_first = false;
  for (LimiterState* const limiter : limiters) {
    if (!has_one_of(*limiter, charges, crowded)) continue;
    is_first = limiter->stats.crowded++ == 0 || is_first;
    counters_of_policy(*limiter).add(place::kCrowded);
  }
  if (is_first) call_hook("warn_of_crowded_store", store);
}

}  // namespace overlimit::python
