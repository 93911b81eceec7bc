// overlimit.Decision: plain C fields, followed by its rows. No object is made until it is asked for.
#pragma once

#include <Python.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "object.hpp"
#include "overlimit/decision.hpp"
#include "overlimit/errors.hpp"

namespace overlimit::python {

/// One charge of a decision: a policy, an identifier as the caller gave it, its cost and its role.
struct Subject {
  PyObject* policy;
  PyObject* identifier;
  Cost cost;
  Role role;
};

/// What has decided: the store; the local fallback, while the store failed; or on_error, as an error.
enum class Source : std::uint8_t { store, local, error };

/// Adds the type to the module; false with a Python exception set.
bool add_decision(PyObject* module);

/// A decision in the making: room for its subjects and rows, which the store then fills.
class NewDecision : NonCopyable {
 public:
  /// Takes references of its own to the subjects. MemoryError is thrown as PythonError.
  NewDecision(const Subject* subjects, std::size_t subject_count, std::size_t row_count);
  /// The answer of on_error, without subjects and rows.
  NewDecision() : NewDecision(nullptr, 0, 0) {}
  ~NewDecision();
  [[nodiscard]] std::span<Subject> subjects() const;
  [[nodiscard]] Rows rows() const;
  Instant& time() const;
  /// Completes it: a new reference. `cost` is an int. Without an answer, the rows are folded.
  PyObject* finish(const Decision& answer, PyObject* cost, Source source = Source::store);
  PyObject* finish(PyObject* cost, Source source);

 private:
  PyObject* decision_;
};

/// What a decision has charged, for as long as it lives: its subjects, and a receipt per row.
struct RefundableCharges {
  std::span<const Subject> subjects;
  std::span<const Receipt> receipts;
  Source source{};
};

/// The right to refund or settle charges of a decision, of one caller at a time, until it was used. Keeps no
/// reference to the decision.
class RefundClaim : NonCopyable {
 public:
  /// Of these charges. TypeError for another object than a Decision, thrown as PythonError.
  explicit RefundClaim(PyObject* decision, ChargeBits charges = ~ChargeBits{0});
  /// Returns the right, unless it was used.
  ~RefundClaim();
  /// Empty when there is nothing to give back, or others have the right.
  [[nodiscard]] const RefundableCharges& charged() const { return charged_; }
  /// Whether the right is that to this charge.
  [[nodiscard]] bool is_to(std::size_t place) const { return (taken_ >> place & 1) != 0; }
  void mark_used() { is_used_ = true; }

  /// Runs what uses the right, which is gone as soon as that may have happened.
  template <class Action>
  void use(const Action& action) {
    try {
      action();
    } catch (const StoreError& error) {
      is_used_ = error.maybe_charged();
      throw;
    } catch (const WaitInterrupted& interruption) {
      is_used_ = interruption.maybe_charged();
      throw;
    }
    is_used_ = true;
  }

 private:
  PyObject* decision_;
  RefundableCharges charged_;
  ChargeBits taken_ = 0;
  bool is_used_ = false;
};

/// Ends all rights to refund a decision, or to settle it.
void make_final(PyObject* decision);

/// What a decision is made of; borrowed. Each subject has a row per limit, in canonical order.
struct DecisionParts {
  const Decision& answer;
  Instant time;
  PyObject* cost;
  Source source;
  std::span<const Subject> subjects;
  Rows rows;
};

/// TypeError for another object than a Decision, thrown as PythonError.
DecisionParts parts_of(PyObject* decision);

/// Adds the function that makes a Decision; false with a Python exception set.
bool add_decision_values(PyObject* module);

/// The bytes of a Decision, by its values alone: equal ones have equal bytes.
Object bytes_of(PyObject* decision);

}  // namespace overlimit::python
