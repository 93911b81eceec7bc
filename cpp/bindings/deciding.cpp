#include "deciding.hpp"

#include <cstddef>
#include <span>

#include "charges.hpp"
#include "clock.hpp"
#include "decision.hpp"
#include "errors.hpp"
#include "hooks.hpp"
#include "limiter.hpp"
#include "on_error.hpp"
#include "operations.hpp"
#include "stats.hpp"
#include "store_task.hpp"

namespace overlimit::python {
namespace {

PyObject* one = nullptr;
PyObject* cost_name = nullptr;
PyObject* patience_name = nullptr;

/// What the keywords of a call say. Borrowed.
struct Keywords {
  PyObject* cost = one;
  PyObject* patience = nullptr;
};

Keywords parse_keywords(PyObject* const* values, PyObject* names, bool takes_patience) {
  Keywords keywords;
  const Py_ssize_t count = names == nullptr ? 0 : PyTuple_GET_SIZE(names);
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* const name = PyTuple_GET_ITEM(names, i);
    if (PyUnicode_Compare(name, cost_name) == 0) {
      keywords.cost = values[i];
    } else if (takes_patience && PyUnicode_Compare(name, patience_name) == 0) {
      keywords.patience = values[i];
    } else {
      PyErr_Format(PyExc_TypeError,
                   "unexpected keyword argument %R: the only one is cost, and identifiers are given by "
                   "position, as in hit('user:42', cost=2)",
                   name);
      throw PythonError{};
    }
  }
  return keywords;
}

template <class Charges>
Object counted(Object decision, const Charges& charges, Mode mode) {
  if (mode == Mode::consume) count_decision(decision.get(), charges);
  return decision;
}

template <class Charges>
Object decided(std::span<LimiterState* const> limiters, const Charges& collected, Mode mode,
               Duration patience, PyObject* cost) {
  collected.check_cells();
  Deciding deciding(*limiters.front(), collected, mode, patience);
  const Rows rows = deciding.rows();
  try {
    ask_store(
        limiters, [&](Store& store) { return deciding.decide_here(rows, store); },
        [&](Store& store, const Interrupted& interrupted) { deciding.ask(rows, store, interrupted); });
  } catch (const StoreError& error) {
    return counted(deciding.answer_without(error, limiters, collected, cost), collected, mode);
  }
  return counted(deciding.answer(limiters, collected, rows, cost), collected, mode);
}

// Python logs what the callback raises.
void tell(const LimiterState& limiter, const Object& decision) {
  if (limiter.on_decision.get() == Py_None) return;
  const Object on_decision = Object::borrow(limiter.on_decision.get());
  call_hook("announce", on_decision.get(), decision.get());
}

/// The charges of a limiter to identifiers, each once. Borrows the policy.
template <Role role>
void collect(PyObject* policy, std::span<PyObject* const> identifiers, Cost units, ChargeList& collected) {
  for (PyObject* const identifier : identifiers) {
    collected.add(policy, identifier, units, role);
    if (collected.repeats()) collected.drop_newest();
    check_count(collected.size());
  }
}

template <Mode mode>
void finish(const LimiterState& limiter, const Object& decision) {
  if constexpr (mode == Mode::consume) {
    tell(limiter, decision);
  } else {
    make_final(decision.get());
  }
}

template <Mode mode>
Object finished(const LimiterState& limiter, Object decision) {
  finish<mode>(limiter, decision);
  return decision;
}

template <Mode mode>
[[gnu::flatten]] Object ask(LimiterState& limiter, std::span<PyObject* const> identifiers, Duration patience,
                            const WholeCost& cost, Cost units) {
  LimiterState* const limiters[] = {&limiter};
  if (identifiers.size() == 1) [[likely]] {
    // The decision keeps it before anything of Python runs.
    const auto& policy = limiter.policy_for_now();
    const LoneCharge lone(policy.get(), identifiers.front(), units, Role::enforce);
    return finished<mode>(limiter, decided(limiters, lone, mode, patience, cost.number()));
  }
  const Object policy = limiter.present_policy();
  ChargeList collected;
  collect<Role::enforce>(policy.get(), identifiers, units, collected);
  return finished<mode>(limiter, decided(limiters, collected.call(), mode, patience, cost.number()));
}

/// A call that decides, to be awaited.
class DecidingTask : public StoreTask {
 public:
  bool decide_here(Store& store) override { return deciding_->decide_here(store); }
  void ask(Store& store, const Interrupted& interrupted) override { deciding_->ask(store, interrupted); }
  Object answer() override { return finished(deciding_->answer()); }
  Object answer_without(const StoreError& error) override {
    return finished(deciding_->answer_without(error));
  }

 protected:
  /// Borrows the arguments.
  void prepare(const ChargeList& collected, Mode mode, Duration patience, PyObject* cost) {
    deciding_.emplace(limiters(), collected, mode, patience, cost);
  }
  /// What follows a decision.
  virtual void finish_with(const Object& decision) const = 0;

 private:
  Object finished(Object decision) const {
    deciding_->count(decision.get());
    finish_with(decision);
    return decision;
  }

  std::optional<DecidingLater> deciding_;
};

template <Mode mode, Role role = Role::enforce>
class PendingDecision final : public DecidingTask {
 public:
  PendingDecision(LimiterState& limiter, std::span<PyObject* const> identifiers, Duration patience,
                  const WholeCost& cost, Cost units)
      : limiter_(&limiter),
        kept_(Object::borrow(limiter.object)),
        policy_(limiter.present_policy()),
        cost_(Object::borrow(cost.number())) {
    collect<role>(policy_.get(), identifiers, units, collected_);
    prepare(collected_, mode, patience, cost_.get());
  }
  [[nodiscard]] std::span<LimiterState* const> limiters() const override { return {&limiter_, 1}; }

 private:
  void finish_with(const Object& decision) const override { finish<mode>(*limiter_, decision); }

  LimiterState* limiter_;
  Object kept_;
  Object policy_;
  Object cost_;
  ChargeList collected_;
};

// A template that is inlined, since every hit counts.
template <Mode mode, bool takes_patience, When when = When::now>
[[gnu::flatten]] PyObject* ask_by_keywords(PyObject* self, PyObject* const* arguments, Py_ssize_t count,
                                           PyObject* names) {
  return guarded(static_cast<PyObject*>(nullptr), [&] {
    const Keywords keywords = parse_keywords(arguments + count, names, takes_patience);
    const bool is_patient = takes_patience && keywords.patience != nullptr;
    const Duration patience = is_patient ? duration_from(keywords.patience, "patience") : kNever;
    const std::span identifiers(arguments, static_cast<std::size_t>(count));
    if (identifiers.empty()) raise_value_error(kNoIdentifier);
    const WholeCost cost(keywords.cost);
    const Cost units = keywords.cost == one ? 1 : cost.units();
    LimiterState& limiter = state_of_self(self);
    if constexpr (when == When::later) {
      using Task = PendingDecision<mode>;
      return answer_or_pending(std::make_unique<Task>(limiter, identifiers, patience, cost, units)).release();
    }
    return ask<mode>(limiter, identifiers, patience, cost, units).release();
  });
}

[[noreturn]] void refuse_charge(PyObject* charge, const char* function) {
  PyErr_Format(PyExc_TypeError,
               "a charge must be a tuple (limiter, identifier[, cost]), as in %s([(limiter, 'user:42'), "
               "(other, 'ip:203.0.113.7', 2)]), not %U",
               function, call_hook("short_repr", charge).get());
  throw PythonError{};
}

[[noreturn]] void refuse_limiter(PyObject* given, const char* function) {
  const Object name = required(PyUnicode_FromString(function));
  PyErr_SetObject(PyExc_TypeError, call_hook("expected_limiter", given, name.get()).get());
  throw PythonError{};
}

/// (limiter, identifier[, cost]), as errors about it say that the function takes it.
GivenCharge parse_charge(PyObject* charge, const char* function) {
  const Py_ssize_t size = PyTuple_Check(charge) ? PyTuple_GET_SIZE(charge) : 0;
  if (size < 2 || size > 3) refuse_charge(charge, function);
  GivenCharge given{PyTuple_GET_ITEM(charge, 0), PyTuple_GET_ITEM(charge, 1), one};
  if (!is_limiter(given.limiter)) refuse_limiter(given.limiter, function);
  if (size > 2) given.cost = PyTuple_GET_ITEM(charge, 2);
  return given;
}

// A tuple of our own, which keeps all alive. What never ends is refused as soon as it is too long.
Object own_charges(PyObject* charges) {
  if (PyList_Check(charges) || PyTuple_Check(charges)) return required(PySequence_Tuple(charges));
  if (Py_TYPE(charges)->tp_iter == nullptr && PySequence_Check(charges) == 0) {
    raise_about(PyExc_TypeError, "charges must be a list of tuples (limiter, identifier[, cost]), not %U",
                charges);
  }
  const Object iterator = required(PyObject_GetIter(charges));
  const Object given = required(PyList_New(0));
  while (const Object charge = Object::steal(PyIter_Next(iterator.get()))) {
    if (PyList_GET_SIZE(given.get()) == Py_ssize_t(kMaxCharges)) raise_value_error(kTooManyCharges);
    if (PyList_Append(given.get(), charge.get()) < 0) throw PythonError{};
  }
  if (PyErr_Occurred() != nullptr) throw PythonError{};
  return required(PyList_AsTuple(given.get()));
}

}  // namespace

namespace {

std::span<LimiterState* const> limiters_of(const ChargesOfLimiters& collected) {
  if (collected.limiters.empty()) {
    PyErr_Format(PyExc_ValueError, "a call must have at least one charge, as in %s([(limiter, 'user:42')])",
                 collected.function);
    throw PythonError{};
  }
  return collected.limiters;
}

void finish(const ChargesOfLimiters& collected, Mode mode, const Object& decision) {
  if (mode == Mode::peek) return make_final(decision.get());
  for (const LimiterState* limiter : collected.limiters) tell(*limiter, decision);
}

/// A call under several limiters, to be awaited.
class PendingDecisionOfAll final : public DecidingTask {
 public:
  PendingDecisionOfAll(const Collect& collect, Mode mode, Duration patience, Object kept)
      : kept_(std::move(kept)), mode_(mode) {
    collect(collected_);
    (void)limiters_of(collected_);
    prepare(collected_.charges, mode, patience, collected_.cost.get());
  }
  [[nodiscard]] std::span<LimiterState* const> limiters() const override { return collected_.limiters; }

 private:
  void finish_with(const Object& decision) const override { finish(collected_, mode_, decision); }

  Object kept_;
  Mode mode_;
  ChargesOfLimiters collected_;
};

}  // namespace

Object decide_all(const ChargesOfLimiters& collected, Mode mode, Duration patience) {
  Object decision =
      decided(limiters_of(collected), collected.charges.call(), mode, patience, collected.cost.get());
  finish(collected, mode, decision);
  return decision;
}

std::unique_ptr<StoreTask> deciding_all(const Collect& collect, Mode mode, Duration patience, Object kept) {
  return std::make_unique<PendingDecisionOfAll>(collect, mode, patience, std::move(kept));
}

Task charging(PyObject* self, Arguments identifiers, PyObject* names) {
  const Keywords keywords = parse_keywords(identifiers.data() + identifiers.size(), names, false);
  if (identifiers.empty()) raise_value_error(kNoIdentifier);
  const WholeCost cost(keywords.cost);
  using Charging = PendingDecision<Mode::consume, Role::always>;
  return std::make_unique<Charging>(state_of(self), identifiers, kNever, cost, cost.units());
}

namespace {

template <Mode mode>
void collect(ChargesOfLimiters& collected, PyObject* given) {
  collected.function = mode == Mode::peek ? "peek_all" : "hit_all";
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(given); ++i) {
    collected.add(parse_charge(PyTuple_GET_ITEM(given, i), collected.function));
  }
}

template <Mode mode, When when>
PyObject* decide_within(PyObject* charges, Duration patience) {
  return guarded(static_cast<PyObject*>(nullptr), [&] {
    Object given = own_charges(charges);
    const auto add = [members = given.get()](ChargesOfLimiters& collected) {
      collect<mode>(collected, members);
    };
    return decided_all<when>(add, mode, patience, std::move(given)).release();
  });
}

template <Mode mode>
PyObject* decide_given(PyObject*, PyObject* charges) {
  return decide_within<mode, When::now>(charges, kNever);
}

template <Mode mode, When when>
PyObject* decide_given_within(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  return guarded(static_cast<PyObject*>(nullptr), [&] {
    if (count != 2) raise_type_error("this function takes charges and the patience");
    const Duration patience = arguments[1] == Py_None ? kNever : duration_from(arguments[1], "patience");
    return decide_within<mode, when>(arguments[0], patience);
  });
}

PyObject* checked_charges(PyObject*, PyObject* charges) {
  return guarded(static_cast<PyObject*>(nullptr), [&] {
    const Object given = own_charges(charges);
    Object checked = required(PyTuple_New(PyTuple_GET_SIZE(given.get())));
    ChargesOfLimiters collected;
    collected.function = "acquire_all";  // which alone asks for it
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(given.get()); ++i) {
      GivenCharge charge = parse_charge(PyTuple_GET_ITEM(given.get(), i), collected.function);
      const WholeCost whole(charge.cost);
      charge.cost = whole.number();
      collected.add(charge);
      Object kept = required(PyTuple_Pack(3, charge.limiter, charge.identifier, charge.cost));
      PyTuple_SET_ITEM(checked.get(), i, kept.release());
    }
    (void)limiters_of(collected);
    collected.charges.check_cells();
    return checked.release();
  });
}

PyMethodDef methods[] = {
    {"hit", as_c_function(ask_by_keywords<Mode::consume, false>), METH_FASTCALL | METH_KEYWORDS,
     "hit($self, /, *identifiers, cost=1)\n--\n\nDecide whether these identifiers may spend this cost, and "
     "charge it if they may.\n\nEvery limit is checked for every identifier; if any refuses, nothing is "
     "charged.\n\nParameters\n----------\nidentifiers : str or bytes\n    Who is limited, such as 'user:42': "
     "1 to 16 of them, duplicates counting once.\ncost : int\n    What the call spends, 0 or more; 0 asks "
     "and charges nothing.\n\nReturns\n-------\nDecision\n    Truthy when the call may pass. A refusal is "
     "not an exception.\n\nRaises\n------\nValueError, TypeError\n    A wrong argument; nothing was "
     "charged.\nStoreError\n    The store cannot answer, within its timeout, and on_error is 'raise'."},
    {"_hit_within", as_c_function(ask_by_keywords<Mode::consume, true>), METH_FASTCALL | METH_KEYWORDS,
     "_hit_within($self, /, *identifiers, cost=1, patience=inf)\n--\n\nA hit that is refused when its delay "
     "would be longer than patience seconds."},
    {"_hit_later", as_c_function(ask_by_keywords<Mode::consume, true, When::later>),
     METH_FASTCALL | METH_KEYWORDS,
     "_hit_later($self, /, *identifiers, cost=1, patience=inf)\n--\n\n_hit_within(), to be awaited, like all "
     "of these: each returns a PendingCall."},
    {"peek", as_c_function(ask_by_keywords<Mode::peek, false>), METH_FASTCALL | METH_KEYWORDS,
     "peek($self, /, *identifiers, cost=1)\n--\n\nReturn the Decision that hit() would give now; nothing is "
     "charged.\n\nSo remaining is what would be left after such a hit; cost=0 shows the present."},
    {"_peek_within", as_c_function(ask_by_keywords<Mode::peek, true>), METH_FASTCALL | METH_KEYWORDS,
     "_peek_within($self, /, *identifiers, cost=1, patience=inf)\n--\n\nReturn the Decision that "
     "_hit_within() would give now; nothing is charged."},
    {"_peek_later", as_c_function(ask_by_keywords<Mode::peek, true, When::later>),
     METH_FASTCALL | METH_KEYWORDS,
     "_peek_later($self, /, *identifiers, cost=1, patience=inf)\n--\n\n_peek_within(), to be awaited."}};

PyMethodDef functions[] = {
    {"hit_all", decide_given<Mode::consume>, METH_O,
     "hit_all(charges, /)\n--\n\nDecide several policies at once: charges are (limiter, identifier, cost) "
     "tuples on one store.\n\nAll or nothing, in one step and at one instant; at most 64 charges. Raises "
     "ValueError for limiters\non different stores or clocks, or for a policy and identifier that occur "
     "twice."},
    {"peek_all", decide_given<Mode::peek>, METH_O,
     "peek_all(charges, /)\n--\n\nReturn the Decision that hit_all() would give now; nothing is charged."},
    {"_hit_all_later", as_c_function(decide_given_within<Mode::consume, When::later>), METH_FASTCALL,
     "_hit_all_later(charges, patience, /)\n--\n\n_hit_all_within(), to be awaited."},
    {"_peek_all_later", as_c_function(decide_given_within<Mode::peek, When::later>), METH_FASTCALL,
     "_peek_all_later(charges, patience, /)\n--\n\n_peek_all_within(), to be awaited."},
    {"_hit_all_within", as_c_function(decide_given_within<Mode::consume, When::now>), METH_FASTCALL,
     "_hit_all_within(charges, patience, /)\n--\n\nA hit_all() that is refused when its delay would be "
     "longer than patience seconds."},
    {"_peek_all_within", as_c_function(decide_given_within<Mode::peek, When::now>), METH_FASTCALL,
     "_peek_all_within(charges, patience, /)\n--\n\nReturn the Decision that _hit_all_within() would give "
     "now; nothing is charged."},
    {"_checked_charges", checked_charges, METH_O,
     "_checked_charges(charges, /)\n--\n\nReturn the charges of an acquire_all() as triples, each cost as an "
     "int, or raise what it raises for wrong ones."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

bool add_deciding(PyObject* module) {
  one = PyLong_FromLong(1);
  cost_name = PyUnicode_InternFromString("cost");
  patience_name = PyUnicode_InternFromString("patience");
  return guarded(false, [&] {
    for (PyMethodDef& each : methods) add_method(each);
    return one != nullptr && cost_name != nullptr && patience_name != nullptr &&
           PyModule_AddFunctions(module, functions) == 0;
  });
}

}  // namespace overlimit::python
