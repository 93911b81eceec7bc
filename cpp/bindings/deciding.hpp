// hit, peek and hit_all: the hot path.
#pragma once

#include <Python.h>

#include <memory>
#include <span>
#include <type_traits>

#include "charges.hpp"
#include "overlimit/call.hpp"
#include "store_task.hpp"

namespace overlimit::python {

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

/// The limiters of a call, at least one: ValueError otherwise, as PythonError.
std::span<LimiterState* const> limiters_of(const ChargesOfLimiters& collected);
/// How charges are decided.
struct Manner {
  Mode mode;
  Duration patience = kNever;
  /// Of an entry of a hit_first its place, from 1, which its admission tells; nobody is told of a refusal, as
  /// another entry may admit the call.
  int entry = 0;
};

/// Decides charges, and calls the on_decision of their limiters unless it is a peek.
Object decide_all(const ChargesOfLimiters& collected, const Manner& manner);
/// What follows a decision: it is counted and announced, or final.
Object finished(const ChargesOfLimiters& collected, const Manner& manner, Object decision);
/// The longest delay that Python accepts; None: any, and who is refused has gone over a limit.
Duration patience_from(PyObject* given);
/// The place of an entry from 0, as Python gives it; ValueError, thrown as PythonError.
int entry_from(std::int64_t place);

/// A call that decides, to be awaited. `kept` is what keeps alive what its charges borrow.
class DecidingTask final : public StoreTask {
 public:
  template <class Collect>
  DecidingTask(const Collect& collect, const Manner& manner, PyObject* kept)
      : kept_(Object::borrow(kept)), manner_(manner) {
    collect(collected_);
    (void)limiters_of(collected_);
    collected_.charges.check_cells();
    deciding_.emplace(*collected_.limiters.front(), collected_.charges.call(), manner.mode, manner.patience);
  }
  [[nodiscard]] std::span<LimiterState* const> limiters() const override { return collected_.limiters; }
  bool decide_here(Store& store) override { return deciding_->decide_here(deciding_->rows(), store); }
  void ask(Store& store, const Interrupted& interrupted) override {
    deciding_->ask(deciding_->rows(), store, interrupted);
  }
  Object answer() override {
    return finished(
        collected_, manner_,
        deciding_->answer(limiters(), collected_.charges.call(), deciding_->rows(), collected_.cost.get()));
  }
  Object answer_without(const StoreError& error) override {
    return finished(
        collected_, manner_,
        deciding_->answer_without(error, limiters(), collected_.charges.call(), collected_.cost.get()));
  }

 private:
  Object kept_;
  Manner manner_;
  ChargesOfLimiters collected_;
  std::optional<Deciding<CallCharges>> deciding_;
};

/// Decides the charges that `collect` adds, or prepares a task that does, by which of them is wanted.
template <class Answer, class Collect>
Answer decided(const Collect& collect, const Manner& manner, PyObject* kept) {
  if constexpr (std::is_same_v<Answer, Object>) {
    ChargesOfLimiters collected;
    collect(collected);
    return decide_all(collected, manner);
  } else {
    return std::make_unique<DecidingTask>(collect, manner, kept);
  }
}

}  // namespace overlimit::python
