// A policy, compiled. Limiters and decisions share it, so it is a Python object, which Python never sees.
#pragma once

#include <Python.h>

#include <atomic>
#include <optional>
#include <string_view>

#include "counters.hpp"
#include "functions.hpp"
#include "overlimit/compiled_policy.hpp"

namespace overlimit::python {

struct Succession;

struct PolicyObject {
  PyObject_HEAD CompiledPolicy* compiled;
  PyObject* name;
  PyObject* limits;
  PyObject* penalty;
  PyObject* local_policy;               ///< nullptr: the policy itself
  std::atomic<Succession*> succession;  ///< nullptr: of a limiter without updates; once set it stays
  /// Where decisions count that a limit binds, in canonical order; nullptr before the first one.
  std::atomic<CounterSlot**> counters;
};

/// The identity that a str names, or a new one for None. InvalidLimit, or PythonError for another type.
PolicyIdentity identity_from(PyObject* name);

/// Of limits and a Penalty or None. InvalidLimit, or PythonError for wrong types.
Object new_policy(const PolicyIdentity& identity, Tuple limits, PyObject* penalty, Object local_policy = {});

/// What the engine decides by, the limits as given, the name or None, and the penalty (all borrowed).
inline const CompiledPolicy& compiled(PyObject* policy) {
  return *reinterpret_cast<PolicyObject*>(policy)->compiled;
}
PyObject* limits_of(PyObject* policy);
/// How metrics call the policies of an identity.
inline std::string_view shown_name(const PolicyIdentity& identity) {
  return identity.has_name() ? std::string_view(identity.name()) : kUnnamed;
}
PyObject* name_of(PyObject* policy);
PyObject* penalty_of(PyObject* policy);

/// To be called when one policy of a limiter takes the place of another, by one thread at a time.
void succeed(PyObject* past, PyObject* next);

/// A policy with the fastest rates since this one decided; nothing if it has them.
std::optional<CompiledPolicy> fastest_since(PyObject* policy);

/// Finds where decisions of this policy count for metrics: to be called before it decides. PythonError.
void find_counters(PyObject* policy);
/// The same where it was not, as an update came in between.
CounterSlot** counters_found_late(PyObject* policy) noexcept;
/// Where those decisions count that a limit binds.
inline CounterSlot& counters_of(PyObject* policy, std::size_t limit) {
  CounterSlot** counters = reinterpret_cast<PolicyObject*>(policy)->counters.load(std::memory_order_acquire);
  if (counters == nullptr) [[unlikely]]
    counters = counters_found_late(policy);
  return *counters[limit];
}

/// The policy that decides in its place while the store fails, with this process's share (borrowed).
PyObject* local_policy_of(PyObject* policy);

}  // namespace overlimit::python
