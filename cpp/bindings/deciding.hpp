// hit, peek and hit_all: the hot path.
#pragma once

#include <Python.h>

#include <functional>
#include <memory>
#include <span>

#include "charges.hpp"
#include "decision.hpp"
#include "limiter.hpp"
#include "object.hpp"
#include "on_error.hpp"
#include "overlimit/call.hpp"
#include "stats.hpp"
#include "store_task.hpp"

namespace overlimit::python {

/// Adds hit and peek to Limiter, and hit_all and its relatives to the module; false with a Python exception
/// set.
bool add_deciding(PyObject* module);

/// Decides charges under several limiters, at least one, and calls their on_decision unless it is a peek.
Object decide_all(const ChargesOfLimiters& collected, Mode mode, Duration patience = kNever);

/// Adds the charges of a call.
using Collect = std::function<void(ChargesOfLimiters&)>;
/// The same as a task, which keeps alive what these charges borrow.
std::unique_ptr<StoreTask> deciding_all(const Collect& collect, Mode mode, Duration patience, Object kept);

/// The first of these two, or the second to be awaited.
template <When when, class Add>
Object decided_all(const Add& add, Mode mode, Duration patience, Object kept) {
  if constexpr (when == When::later) {
    return answer_or_pending(deciding_all(add, mode, patience, std::move(kept)));
  } else {
    ChargesOfLimiters collected;
    add(collected);
    return decide_all(collected, mode, patience);
  }
}

/// What one call that decides needs besides its arguments, which it borrows. `Charges` are CallCharges or a
/// LoneCharge.
template <class Charges>
class Deciding : NonCopyable {
 public:
  Deciding(const LimiterState& limiter, const Charges& collected, Mode mode, Duration patience)
      : decision_(collected), timed_(limiter, collected.charges) {
    (*timed_).mode = mode;
    (*timed_).patience = patience;
  }
  void show_present() { (*timed_).shows_present = true; }
  [[nodiscard]] Rows rows() const { return decision_.rows(); }

  /// Whether the store decides without asking anybody; then there is no more to do.
  bool decide_here(const Rows& rows, Store& store) {
    return store.decide_here(*timed_, rows, decision_.time(), basis_);
  }
  void ask(const Rows& rows, Store& store, const Interrupted& interrupted) {
    store.decide_one(*timed_, rows, decision_.time(), basis_, interrupted);
  }

  Object answer(std::span<LimiterState* const> limiters, const Charges& collected, const Rows& rows,
                PyObject* cost) {
    if (basis_.crowded != 0) [[unlikely]]
      count_crowded(limiters, collected.charges, basis_.crowded, limiters.front()->store_object.get());
    count_basis(limiters, basis_);
    return Object::steal(decision_.finish(collected.charges, rows, cost, basis_.source));
  }

  Object answer_without(const StoreError& error, std::span<LimiterState* const> limiters,
                        const Charges& collected, PyObject* cost) {
    count_restored(limiters, basis_);
    return decided_without_store(error, limiters, *timed_, collected.call(), cost);
  }

 private:
  // It keeps the policies, before a clock of Python is read, which may change those of the limiter.
  NewDecision decision_;
  TimedCall timed_;
  Basis basis_;
};

/// The same with its arguments, for a task. It borrows them.
class DecidingLater {
 public:
  DecidingLater(std::span<LimiterState* const> limiters, const ChargeList& collected, Mode mode,
                Duration patience, PyObject* cost)
      : limiters_(limiters),
        collected_((collected.check_cells(), collected.call())),
        cost_(cost),
        mode_(mode),
        deciding_(*limiters.front(), collected_, mode, patience),
        rows_(deciding_.rows()) {}
  void show_present() { deciding_.show_present(); }
  bool decide_here(Store& store) { return deciding_.decide_here(rows_, store); }
  void ask(Store& store, const Interrupted& interrupted) { deciding_.ask(rows_, store, interrupted); }
  Object answer() { return deciding_.answer(limiters_, collected_, rows_, cost_); }
  void count(PyObject* decision) const {
    if (mode_ == Mode::consume) count_decision(decision, collected_);
  }
  Object answer_without(const StoreError& error) {
    return deciding_.answer_without(error, limiters_, collected_, cost_);
  }

 private:
  std::span<LimiterState* const> limiters_;
  CallCharges collected_;
  PyObject* cost_;
  Mode mode_;
  Deciding<CallCharges> deciding_;
  Rows rows_;
};

}  // namespace overlimit::python
