#include "stats.hpp"

#include <algorithm>
#include <limits>

#include "clock.hpp"
#include "object.hpp"

namespace overlimit::python {
namespace {

constexpr std::array<const char*, kFailures> kFailureNames{"timeout", "unavailable", "config", "script"};
constexpr std::array kBreakerNames{"closed", "open", "half_open"};

void set(const Object& dict, const char* key, Object value) {
  if (PyDict_SetItemString(dict.get(), key, checked(value.get())) < 0) throw PythonError{};
}

Object number(std::uint64_t count) { return Object::steal(PyLong_FromUnsignedLongLong(count)); }

Object errors_dict(const Stats& stats) {
  Object dict = Object::steal(checked(PyDict_New()));
  for (std::size_t i = 0; i < kFailures; ++i) set(dict, kFailureNames[i], number(stats.errors[i]));
  return dict;
}

double bound_in_seconds(std::size_t place) {
  return place < kLatencyBounds.size() ? seconds_from(kLatencyBounds[place])
                                       : std::numeric_limits<double>::infinity();
}

Object latency_dict(const Stats& stats) {
  Object dict = Object::steal(checked(PyDict_New()));
  for (std::size_t i = 0; i < stats.latencies.size(); ++i) {
    const Object bound = Object::steal(checked(PyFloat_FromDouble(bound_in_seconds(i))));
    const Object count = number(stats.latencies[i]);
    if (PyDict_SetItem(dict.get(), bound.get(), checked(count.get())) < 0) throw PythonError{};
  }
  return dict;
}

}  // namespace

Failure failure_of(const StoreError& error) {
  if (dynamic_cast<const StoreTimeout*>(&error) != nullptr) return Failure::timeout;
  if (dynamic_cast<const StoreConfigError*>(&error) != nullptr) return Failure::config;
  if (dynamic_cast<const ScriptError*>(&error) != nullptr) return Failure::script;
  return Failure::unavailable;
}

const char* name_of(Failure failure) { return kFailureNames[std::size_t(failure)]; }

void Stats::count_latency(Micros duration) {
  const auto bound = std::ranges::lower_bound(kLatencyBounds, duration);
  ++latencies[std::size_t(bound - kLatencyBounds.begin())];
}

PyObject* stats_dict(const Stats& stats, Breaker breaker) {
  Object dict = Object::steal(checked(PyDict_New()));
  set(dict, "calls", number(stats.calls));
  set(dict, "errors", errors_dict(stats));
  set(dict, "timeouts", number(stats.errors[std::size_t(Failure::timeout)]));
  set(dict, "local", number(stats.local));
  set(dict, "breaker", Object::steal(PyUnicode_FromString(kBreakerNames[std::size_t(breaker)])));
  set(dict, "latency", latency_dict(stats));
  return dict.release();
}

}  // namespace overlimit::python
