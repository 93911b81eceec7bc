// overlimit.Decision: a heap type with plain C fields and its rows behind it. Nothing is formatted and no
// object is made until it is asked for.
#pragma once

#include <Python.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "overlimit/decision.hpp"

namespace overlimit::python {

/// Who was asked about: a policy and an identifier as the caller gave it, what it would spend, and in which
/// role.
struct Subject {
  PyObject* policy;
  PyObject* identifier;
  Cost cost;
  Role role;
};

/// Who has decided: the store; this process alone, while the store failed; nobody, and what is to happen then
/// was the answer.
enum class Source : std::uint8_t { store, local, error };

/// Adds the type to the module; false with a Python exception set.
bool add_decision(PyObject* module);

/// A decision in the making: room for its subjects and rows, which the store then fills.
class NewDecision {
 public:
  /// Takes references of its own to the subjects. Without rows it's one that nobody has decided. MemoryError
  /// is thrown as PythonError.
  NewDecision(const Subject* subjects, std::size_t subject_count, std::size_t row_count);
  NewDecision(const NewDecision&) = delete;
  NewDecision& operator=(const NewDecision&) = delete;
  ~NewDecision();

  [[nodiscard]] Rows rows() const;
  Micros& time() const;
  /// Completes it: a new reference. `cost` is what the caller asked for.
  PyObject* finish(const Decision& answer, PyObject* cost, Source source = Source::store);

 private:
  PyObject* decision_;
};

/// What a decision has charged, for as long as it lives: its subjects, and a receipt per row.
struct Charged {
  std::span<const Subject> subjects;
  std::span<const Receipt> receipts;
  Source source;
};

/// Claims what a decision has charged, to give it back; nothing to claim: no subjects. What is claimed is
/// gone, unless it's put back. TypeError for what is no Decision, thrown as PythonError.
Charged claim(PyObject* decision);
void put_back(PyObject* decision);

/// Whether a decision is about this policy, by name.
bool is_about(PyObject* decision, PyObject* policy_name);

/// What a decision answered, as long as it lives: its subjects, and a row per subject and limit, each
/// subject's in canonical order. TypeError for what is no Decision, thrown as PythonError.
struct Answered {
  std::span<const Subject> subjects;
  Rows rows;
};
Answered answered(PyObject* decision);

}  // namespace overlimit::python
