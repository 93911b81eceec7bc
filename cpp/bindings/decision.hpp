// overlimit.Decision: plain C fields, followed by its rows. No object is made until it is asked for.
#pragma once

#include <Python.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <span>
#include <utility>

#include "kept_objects.hpp"
#include "object.hpp"
#include "overlimit/decision.hpp"
#include "overlimit/errors.hpp"
#include "overlimit/store.hpp"
#include "policy.hpp"

namespace overlimit::python {

/// One charge of a decision: a policy, an identifier as the caller gave it, its cost and its role.
struct Subject {
  PyObject* policy;
  PyObject* identifier;
  Cost cost;
  Role role;
};

/// After the fields: the subjects, then the rows. An answer of on_error has neither.
struct DecisionObject {
  PyObject_VAR_HEAD Decision answer;
  Instant time;
  PyObject* cost;
  std::size_t subject_count;
  std::size_t row_count;
  Source source;
  std::uint8_t chosen;              ///< the place of the entry of a hit_first that admitted, from 1; 0: none
  std::atomic<ChargeBits> claimed;  ///< these were refunded or settled, or are being
  std::atomic<PyObject*> details;   ///< a tuple for those that were read, in the order given; nullptr: none

  [[nodiscard]] std::span<Subject> subjects() {
    return {reinterpret_cast<Subject*>(this + 1), subject_count};
  }
  [[nodiscard]] Rows rows() {
    return rows_at(reinterpret_cast<std::byte*>(this + 1) + subject_count * sizeof(Subject), row_count);
  }
};

/// How many entries a hit_first may have.
inline constexpr int kMaxChoices = 16;

extern PyTypeObject* decision_type;

/// The room for subjects and rows of a decision comes in units of so many bytes.
inline constexpr std::size_t kRoomUnit = 64;
constexpr std::size_t room_for(std::size_t subjects, std::size_t rows) {
  return (subjects * sizeof(Subject) + rows * kRowBytes + kRoomUnit - 1) / kRoomUnit * kRoomUnit;
}

inline constexpr std::size_t kLargestKeptRoom = 1024;
extern std::array<KeptObjects<DecisionObject>, kLargestKeptRoom / kRoomUnit + 1> kept_decisions;
/// Those with this much room; nullptr for so much that none are kept.
inline KeptObjects<DecisionObject>* kept_decisions_with(std::size_t room) {
  return room > kLargestKeptRoom ? nullptr : &kept_decisions[room / kRoomUnit];
}

/// MemoryError is thrown as PythonError.
inline DecisionObject* new_decision(std::size_t room) {
  KeptObjects<DecisionObject>* const kept = kept_decisions_with(room);
  if (DecisionObject* const one = kept == nullptr ? nullptr : kept->take()) [[likely]]
    return one;
  PyObject* const made =
      reinterpret_cast<PyObject*>(PyObject_NewVar(DecisionObject, decision_type, Py_ssize_t(room)));
  return reinterpret_cast<DecisionObject*>(checked(made));
}

/// A decision in the making: room for its subjects and rows, which the store then fills.
class NewDecision : NonCopyable {
 public:
  /// Takes references of its own to the subjects. MemoryError is thrown as PythonError.
  NewDecision(const Subject* subjects, std::size_t subject_count, std::size_t row_count)
      : NewDecision(subject_count, row_count) {
    for (std::size_t i = 0; i < subject_count; ++i) add(i, subjects[i]);
  }
  /// The same of the charges of a call.
  template <class Charges>
  explicit NewDecision(const Charges& charges) : NewDecision(charges.size(), charges.pairs()) {
    for (std::size_t i = 0; i < charges.size(); ++i) add(i, charges.subject(i));
  }
  /// The answer of on_error, without subjects and rows.
  NewDecision() : NewDecision(nullptr, 0, 0) {}
  ~NewDecision() {
    if (decision_ != nullptr && !is_finalizing()) Py_DECREF(decision_);
  }
  [[nodiscard]] std::span<Subject> subjects() const { return decision_->subjects(); }
  [[nodiscard]] Rows rows() const { return decision_->rows(); }
  [[nodiscard]] Instant& time() const { return decision_->time; }
  /// Completes it: a new reference. `cost` is an int. Without an answer, the rows are folded: of these
  /// charges, or of the subjects.
  PyObject* finish(const Decision& answer, PyObject* cost, Source source = Source::store) {
    decision_->answer = answer;
    return finish_answered(cost, source);
  }
  PyObject* finish(std::span<const Charge> charges, const Rows& rows, PyObject* cost,
                   Source source = Source::store) {
    fold_into(decision_->answer, charges, rows);
    return finish_answered(cost, source);
  }
  PyObject* finish(PyObject* cost, Source source);

 private:
  NewDecision(std::size_t subject_count, std::size_t row_count)
      : decision_(new_decision(room_for(subject_count, row_count))) {
    decision_->cost = nullptr;
    decision_->subject_count = subject_count;
    decision_->row_count = row_count;
    new (&decision_->claimed) std::atomic<ChargeBits>(0);
    new (&decision_->details) std::atomic<PyObject*>(nullptr);
  }
  void add(std::size_t place, const Subject& subject) {
    Subject& own = reinterpret_cast<Subject*>(decision_ + 1)[place];
    own.policy = Py_NewRef(subject.policy);
    own.identifier = Py_NewRef(subject.identifier);
    own.cost = subject.cost;
    own.role = subject.role;
  }
  PyObject* finish_answered(PyObject* cost, Source source) {
    decision_->source = source;
    decision_->chosen = 0;
    decision_->cost = Py_NewRef(cost);
    return reinterpret_cast<PyObject*>(std::exchange(decision_, nullptr));
  }

  DecisionObject* decision_;
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

/// Counts a decision on these charges for metrics, for the limit that binds.
template <class Charges>
void count_decision(PyObject* object, const Charges& charges) {
  const DecisionObject& decision = *reinterpret_cast<DecisionObject*>(object);
  std::size_t row = decision.answer.binding_row;
  std::size_t charge = 0;
  if (charges.size() > 1) {
    for (std::size_t limits; row >= (limits = charges.charges[charge].policy->size()); ++charge)
      row -= limits;
  }
  const std::size_t place =
      std::size_t(decision.source) * kStatusNames.size() + std::size_t(decision.answer.status);
  counters_of(charges.subject(charge).policy, row).add(place);
}

/// Counts a refusal for metrics that was not counted when it was made: one of on_error, which has no rows,
/// for the first limit of this policy.
void count_refusal(PyObject* refusal, PyObject* policy);

/// What a decision is made of. Each subject has a row per limit, in canonical order. TypeError for another
/// object than a Decision, thrown as PythonError.
DecisionObject& parts_of(PyObject* decision);

/// Adds the function that makes a Decision. PythonError.
void add_decision_values(PyObject* module);

/// The details of a Decision, which they keep alive: a new reference. MemoryError is thrown as PythonError.
PyObject* new_details(PyObject* decision);

/// The bytes of a Decision, by its values alone: equal ones have equal bytes.
Object bytes_of(PyObject* decision);

}  // namespace overlimit::python
