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

/// Makes what the functions below need; false with a Python exception set.
bool prepare_deciding();

/// Methods of Limiter, METH_FASTCALL | METH_KEYWORDS. Those that are called later return a PendingCall.
PyObject* hit(PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* names);
PyObject* hit_within(PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* names);
PyObject* hit_later(PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* names);
PyObject* peek(PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* names);
PyObject* peek_within(PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* names);
PyObject* peek_later(PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* names);
PyObject* charge(PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* names);
PyObject* charge_later(PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* names);

/// Functions of the module, METH_O.
PyObject* hit_all(PyObject* module, PyObject* charges);
PyObject* hit_all_later(PyObject* module, PyObject* charges);
PyObject* peek_all(PyObject* module, PyObject* charges);
PyObject* peek_all_later(PyObject* module, PyObject* charges);

/// Decides charges under several limiters, at least one, and calls their on_decision unless it is a peek.
Object decide_all(const ChargesOfLimiters& collected, Mode mode);

/// Adds the charges of a call.
using Collect = std::function<void(ChargesOfLimiters&)>;
/// The same as a task, which keeps alive what these charges borrow.
std::unique_ptr<StoreTask> deciding_all(const Collect& collect, Mode mode, Object kept);

/// A call that decides, and the Decision that becomes of its answer. Borrows all that it is given.
class Deciding : NonCopyable {
 public:
  Deciding(std::span<LimiterState* const> limiters, const ChargeList& collected, Mode mode, Duration patience,
           PyObject* cost)
      : limiters_(limiters),
        collected_((collected.check_cells(), collected)),
        cost_(cost),
        timed_(*limiters.front(), collected.charges()),
        decision_(collected.subjects(), collected.size(), pairs_of(collected.charges())),
        rows_(decision_.rows()) {
    (*timed_).mode = mode;
    (*timed_).patience = patience;
  }
  void show_present() { (*timed_).shows_present = true; }

  void ask(Store& store, const Interrupted& interrupted) {
    store.decide({&*timed_, 1}, rows_, {&decision_.time(), 1}, {&crowded_, 1}, interrupted);
  }

  Object answer() {
    const std::span<const Charge> charges = collected_.charges();
    if (crowded_ != 0) count_crowded(limiters_, charges, crowded_, limiters_.front()->store_object.get());
    return Object::steal(decision_.finish(fold(charges, rows_), cost_));
  }

  Object answer_without(const StoreError& error) {
    return decided_without_store(error, limiters_, *timed_, collected_, cost_);
  }

 private:
  std::span<LimiterState* const> limiters_;
  const ChargeList& collected_;
  PyObject* cost_;
  TimedCall timed_;
  NewDecision decision_;
  Rows rows_;
  ChargeBits crowded_ = 0;
};

}  // namespace overlimit::python
