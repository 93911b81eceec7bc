// The charges of one call, as they are collected from Python objects.
#pragma once

#include <Python.h>

#include <algorithm>
#include <span>

#include "decision.hpp"
#include "identifiers.hpp"
#include "object.hpp"
#include "overlimit/room.hpp"
#include "overlimit/store.hpp"
#include "policy.hpp"

namespace overlimit::python {

[[noreturn]] inline void raise_value_error(const char* message) {
  PyErr_SetString(PyExc_ValueError, message);
  throw PythonError{};
}

[[noreturn]] inline void raise_type_error(const char* message) {
  PyErr_SetString(PyExc_TypeError, message);
  throw PythonError{};
}

inline constexpr std::size_t kMaxIdentifiers = 16;

inline void check_count(std::size_t identifiers) {
  if (identifiers > kMaxIdentifiers) raise_value_error("a call must name at most 16 identifiers");
}

inline constexpr const char* kTooManyCharges = "a call must have at most 64 charges";
inline constexpr const char* kNoIdentifier = "a call must name at least one identifier, such as 'user:42'";

/// Borrows policies and identifiers: they must outlive it.
class Collected {
 public:
  void add(PyObject* policy, PyObject* identifier, Cost cost, Role role = Role::enforce) {
    if (size_ == kMaxCharges) raise_value_error(kTooManyCharges);
    subjects_.put(size_, policy, identifier, cost, role);
    charges_.put(size_, &plan_of(policy), bytes_.view(identifier), cost, role);
    ++size_;
  }

  /// Whether the newest charge is on the same key as an earlier one.
  [[nodiscard]] bool repeats() const {
    const Charge& newest = charges_[size_ - 1];
    return std::any_of(charges_.data(), charges_.data() + size_ - 1, [&](const Charge& earlier) {
      return earlier.identifier == newest.identifier &&
             (earlier.plan == newest.plan || earlier.plan->identity() == newest.plan->identity());
    });
  }
  void drop_newest() { --size_; }

  /// Whether the newest charge calls other limits by the name of an earlier one's, or other ones that decide
  /// in their place.
  [[nodiscard]] bool contradicts() const {
    const Subject& newest = subjects_[size_ - 1];
    return std::any_of(subjects_.data(), subjects_.data() + size_ - 1, [&](const Subject& earlier) {
      return earlier.policy != newest.policy &&
             plan_of(earlier.policy).identity() == plan_of(newest.policy).identity() &&
             (!have_same_numbers(earlier.policy, newest.policy) ||
              !have_same_numbers(local_policy_of(earlier.policy), local_policy_of(newest.policy)));
    });
  }

  /// ValueError, thrown as PythonError, for more work than one call may be.
  void check_cells() const {
    constexpr std::int64_t kMaxCells = 65'536;
    std::int64_t cells = 0;
    for (const Charge& charge : charges()) cells += charge.plan->max_cells();
    if (cells > kMaxCells) {
      raise_value_error(
          "a call covers at most 65,536 blocks and log entries over all its identifiers and limits: "
          "use fewer identifiers, a coarser precision or smaller logs");
    }
  }

  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] std::span<const Charge> charges() const { return {charges_.data(), size_}; }
  [[nodiscard]] const Subject* subjects() const { return subjects_.data(); }

 private:
  static bool have_same_numbers(PyObject* policy, PyObject* other) {
    return plan_of(policy).packed() == plan_of(other).packed();
  }

  std::size_t size_ = 0;
  IdentifierBytes bytes_;
  Room<Subject, kMaxCharges> subjects_;
  Room<Charge, kMaxCharges> charges_;
};

}  // namespace overlimit::python
