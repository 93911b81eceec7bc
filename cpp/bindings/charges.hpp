// The charges of a call as they are read from Python objects: identifiers, costs, and the limits on how many.
#pragma once

#include <Python.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory_resource>
#include <span>
#include <string_view>
#include <vector>

#include "decision.hpp"
#include "limiter.hpp"
#include "overlimit/call.hpp"
#include "overlimit/uninitialised_array.hpp"

namespace overlimit::python {

/// Keeps what had to be encoded alive for as long as its views are used.
class IdentifierBytes {
 public:
  /// The bytes of a str (UTF-8, surrogatepass) or bytes identifier, valid as long as it and this live.
  /// TypeError for another type, ValueError for an empty one, thrown as PythonError.
  std::string_view view(PyObject* identifier) {
    if (is_plain(identifier)) [[likely]] {
      return {static_cast<const char*>(PyUnicode_DATA(identifier)),
              static_cast<std::size_t>(PyUnicode_GET_LENGTH(identifier))};
    }
    return view_of_any(identifier);
  }
  /// Whether its bytes are at hand, as those of most are.
  static bool is_plain(PyObject* identifier) {
    return PyUnicode_Check(identifier) && PyUnicode_IS_COMPACT_ASCII(identifier) &&
           PyUnicode_GET_LENGTH(identifier) > 0;
  }

 private:
  std::string_view view_of_any(PyObject* identifier);
  std::string_view encode(PyObject* text);
  std::vector<Object> encoded_;
};

/// A cost as it was asked for, read once.
class WholeCost {
 public:
  /// Borrows an int. TypeError for what is not an integer (bool included), thrown as PythonError.
  explicit WholeCost(PyObject* cost) : number_(cost) {
    if (!PyLong_CheckExact(cost)) convert();
  }
  /// The int, as long as this lives.
  [[nodiscard]] PyObject* number() const { return number_; }
  /// The cost, saturating at 2^53. ValueError for a negative one, thrown as PythonError.
  [[nodiscard]] Cost units() const;

 private:
  void convert();

  PyObject* number_;
  Object converted_;
};

/// What one call may take: identifiers, and blocks and log entries over all of them and its limits.
inline constexpr std::size_t kMaxIdentifiers = 16;
inline constexpr std::int64_t kMaxCells = 65'536;

inline void check_count(std::size_t identifiers) {
  if (identifiers <= kMaxIdentifiers) return;
  raise(PyExc_ValueError, "a call must name at most %zu identifiers, not %zu", kMaxIdentifiers, identifiers);
}

/// Throws PythonError (a ValueError) if a call would take more work than one call may.
inline void check_cells(std::int64_t cells) {
  if (cells > kMaxCells) {
    raise_value_error(
        "a call covers at most 65,536 blocks and log entries over all its identifiers and limits: "
        "use fewer identifiers, a coarser precision or smaller logs");
  }
}

inline constexpr const char* kNoIdentifier = "a call must name at least one identifier, such as 'user:42'";

/// The charges of a call, and what they were made of. Borrows both.
struct CallCharges {
  std::span<const Charge> charges;
  const Subject* subjects;

  [[nodiscard]] std::size_t size() const { return charges.size(); }
  [[nodiscard]] std::size_t pairs() const { return pairs_of(charges); }
  [[nodiscard]] const Subject& subject(std::size_t place) const { return subjects[place]; }
  [[nodiscard]] const CallCharges& call() const { return *this; }
  /// Throws PythonError (a ValueError) if the call would take more work than one call may.
  void check_cells() const {
    std::int64_t cells = 0;
    for (const Charge& charge : charges) cells += charge.policy->max_cells();
    python::check_cells(cells);
  }
};

/// The only charge of a call, as most calls have it. Borrows the policy and the identifier. What CallCharges
/// tells, but known when this is compiled.
class LoneCharge : NonCopyable {
 public:
  LoneCharge(PyObject* policy, PyObject* identifier, Cost units, Role role)
      : subject_{policy, identifier, units, role},
        charge_{&compiled(policy), bytes_.view(identifier), units, role},
        charges{&charge_, 1} {}
  [[nodiscard]] static constexpr std::size_t size() { return 1; }
  [[nodiscard]] std::size_t pairs() const { return charge_.policy->size(); }
  [[nodiscard]] const Subject& subject(std::size_t /*place*/) const { return subject_; }
  [[nodiscard]] CallCharges call() const { return {charges, &subject_}; }
  void check_cells() const { python::check_cells(charge_.policy->max_cells()); }

 private:
  IdentifierBytes bytes_;
  Subject subject_;
  Charge charge_;

 public:
  const std::span<const Charge, 1> charges;
};

/// Borrows policies and identifiers: they must outlive it.
class ChargeList {
 public:
  void add(PyObject* policy, PyObject* identifier, Cost cost, Role role = Role::enforce) {
    if (size_ == kMaxCharges) raise_value_error("a call must have at most 64 charges, and this one has more");
    subjects_.emplace(size_, policy, identifier, cost, role);
    charges_.emplace(size_, &compiled(policy), bytes_.view(identifier), cost, role);
    ++size_;
  }

  /// Adds charges of the same to several identifiers, each once.
  void add_each(PyObject* policy, std::span<PyObject* const> identifiers, Cost cost, Role role) {
    for (PyObject* const identifier : identifiers) {
      add(policy, identifier, cost, role);
      if (repeats()) --size_;
      check_count(size_);
    }
  }

  /// Whether the newest charge is on the same key as an earlier one.
  [[nodiscard]] bool repeats() const {
    const Charge& newest = charges_[size_ - 1];
    return std::any_of(charges_.data(), charges_.data() + size_ - 1, [&](const Charge& earlier) {
      return earlier.identifier == newest.identifier &&
             (earlier.policy == newest.policy || earlier.policy->identity() == newest.policy->identity());
    });
  }

  /// Whether an earlier charge has a policy of the same name with other limits, also for a local decision.
  [[nodiscard]] bool contradicts() const {
    const Subject& newest = subjects_[size_ - 1];
    return std::any_of(subjects_.data(), subjects_.data() + size_ - 1, [&](const Subject& earlier) {
      return earlier.policy != newest.policy &&
             compiled(earlier.policy).identity() == compiled(newest.policy).identity() &&
             (!have_same_numbers(earlier.policy, newest.policy) ||
              !have_same_numbers(local_policy_of(earlier.policy), local_policy_of(newest.policy)));
    });
  }

  void check_cells() const { call().check_cells(); }
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] CallCharges call() const { return {charges(), subjects()}; }
  [[nodiscard]] std::span<const Charge> charges() const { return {charges_.data(), size_}; }
  [[nodiscard]] const Subject* subjects() const { return subjects_.data(); }

 private:
  static bool have_same_numbers(PyObject* policy, PyObject* other) {
    return compiled(policy).packed() == compiled(other).packed();
  }

  std::size_t size_ = 0;
  IdentifierBytes bytes_;
  UninitialisedArray<Subject, kMaxCharges> subjects_;
  UninitialisedArray<Charge, kMaxCharges> charges_;
};

/// Throws PythonError (a ValueError) that names the function unless it can decide both at once.
inline void check_same_store(const LimiterState& first, const LimiterState& other, const char* function) {
  // Clocks first: each has a "memory://" store of its own.
  if (!first.clock.is_same(other.clock)) {
    raise(PyExc_ValueError,
          "%s decides at one instant, and these limiters have different clocks: give them the same "
          "clock=",
          function);
  }
  if (first.store != other.store && !first.store->is_same_as(*other.store)) {
    raise(PyExc_ValueError,
          "%s decides in one store, and these limiters are on different ones: give them the same "
          "store=",
          function);
  }
}

/// A charge as it is given. All borrowed.
struct GivenCharge {
  PyObject* limiter = nullptr;
  PyObject* identifier = nullptr;
  PyObject* cost = nullptr;
  Role role = Role::enforce;
};

/// The charges of a call, and its limiters, each once. Keeps the policies alive; borrows the rest.
class ChargesOfLimiters {
  // For a few charges nothing is allocated.
  std::array<std::byte, 512> room;
  std::pmr::monotonic_buffer_resource memory{room.data(), room.size()};

 public:
  ChargeList charges;
  std::pmr::vector<Object> kept{&memory};
  std::pmr::vector<LimiterState*> limiters{&memory};
  Object cost = required(PyLong_FromLong(0));
  const char* function = "hit_all";  // which errors name

  /// Adds all charges of a call of one limiter.
  void add_call(LimiterState& limiter, std::span<PyObject* const> identifiers, PyObject* number, Cost units,
                Role role) {
    limiters.push_back(&limiter);
    kept.push_back(limiter.present_policy());
    cost = Object::borrow(number);
    charges.add_each(kept.back().get(), identifiers, units, role);
  }
  void add(const GivenCharge& given) {
    const WholeCost whole(given.cost);  // first of all, as reading it may change the limiter
    LimiterState& limiter = state_of(given.limiter);
    if (!limiters.empty()) check_same_store(*limiters.front(), limiter, function);
    if (std::ranges::find(limiters, &limiter) == limiters.end()) limiters.push_back(&limiter);
    kept.push_back(limiter.present_policy());
    charges.add(kept.back().get(), given.identifier, whole.units(), given.role);
    if (charges.repeats())
      raise_value_error(
          "the same policy and identifier occur twice: give one charge with the sum as its cost");
    if (charges.contradicts()) {
      raise_value_error(
          "two limiters of one name have different limits or local shares: give one of them another name=");
    }
    if (given.role != Role::on_refusal) cost = required(PyNumber_Add(cost.get(), whole.number()));
  }
};

}  // namespace overlimit::python
