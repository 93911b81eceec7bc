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
#include "stats.hpp"
#include "store_calls.hpp"

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
      PyErr_Format(
          PyExc_TypeError,
          "unexpected keyword argument %R: the only one is cost, and identifiers are given by position, "
          "as in hit('user:42', cost=2)",
          name);
      throw PythonError{};
    }
  }
  return keywords;
}

template <bool shows_present, class Use>
Object decided(std::span<LimiterState* const> limiters, const ChargeList& collected, Mode mode,
               Duration patience, PyObject* cost, const Use& use) {
  collected.check_cells();
  TimedCall timed(*limiters.front(), collected.charges());
  Call& call = *timed;
  call.mode = mode;
  call.patience = patience;
  if constexpr (shows_present) call.shows_present = true;
  NewDecision decision(collected.subjects(), collected.size(), pairs_of(call.charges));
  const Rows rows = decision.rows();
  const std::span<Instant> time(&decision.time(), 1);
  ChargeBits crowded = 0;
  try {
    ask_store(limiters, [&](Store& store, const Interrupted& interrupted) {
      use([&] { store.decide({&call, 1}, rows, time, {&crowded, 1}, interrupted); });
    });
  } catch (const StoreError& error) {
    return decided_without_store(error, limiters, call, collected, cost);
  }
  if (crowded != 0) count_crowded(limiters, call.charges, crowded, limiters.front()->store_object.get());
  return Object::steal(decision.finish(fold(call.charges, rows), cost));
}

Object decided(std::span<LimiterState* const> limiters, const ChargeList& collected, Mode mode,
               Duration patience, PyObject* cost) {
  return decided<false>(limiters, collected, mode, patience, cost, [](const auto& action) { action(); });
}

// Python logs what the callback raises.
void announce(const Object& on_decision, const Object& decision) {
  if (on_decision.get() == Py_None) return;
  call_hook("announce", on_decision.get(), decision.get());
}

template <Role role>
Object ask(PyObject* self, std::span<PyObject* const> identifiers, Mode mode, Duration patience,
           PyObject* cost) {
  if (identifiers.empty()) raise_value_error(kNoIdentifier);
  const WholeCost whole(cost);
  const Cost units = cost == one ? 1 : whole.units();
  LimiterState& limiter = state_of(self);
  const Object policy = limiter.present_policy();
  ChargeList collected;
  for (PyObject* const identifier : identifiers) {
    collected.add(policy.get(), identifier, units, role);
    if (collected.repeats()) collected.drop_newest();
    check_count(collected.size());
  }
  LimiterState* const limiters[] = {&limiter};
  Object decision = decided(limiters, collected, mode, patience, whole.number());
  if (mode == Mode::consume) {
    announce(Object::borrow(limiter.on_decision.get()), decision);
  } else {
    make_final(decision.get());
  }
  return decision;
}

// A template, since every hit counts.
template <Mode mode, bool takes_patience, Role role = Role::enforce>
PyObject* ask_by_keywords(PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* names) {
  return guarded(static_cast<PyObject*>(nullptr), [&] {
    const Keywords keywords = parse_keywords(arguments + count, names, takes_patience);
    const bool is_patient = takes_patience && keywords.patience != nullptr;
    const Duration patience = is_patient ? duration_from(keywords.patience, "patience") : kNever;
    const std::span identifiers(arguments, static_cast<std::size_t>(count));
    return ask<role>(self, identifiers, mode, patience, keywords.cost).release();
  });
}

/// (limiter, identifier[, cost])
GivenCharge parse_charge(PyObject* charge) {
  const Py_ssize_t size = PyTuple_Check(charge) ? PyTuple_GET_SIZE(charge) : 0;
  if (size < 2 || size > 3) {
    raise_about(PyExc_TypeError,
                "a charge must be a tuple (limiter, identifier[, cost]), as in "
                "hit_all([(limiter, 'user:42'), (other, 'ip:203.0.113.7', 2)]), not %U",
                charge);
  }
  GivenCharge given{PyTuple_GET_ITEM(charge, 0), PyTuple_GET_ITEM(charge, 1), one};
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

void check_any(const ChargesOfLimiters& collected) {
  if (!collected.limiters.empty()) return;
  raise_value_error("a call must have at least one charge, as in hit_all([(limiter, 'user:42')])");
}

}  // namespace

Object decide_all(const ChargesOfLimiters& collected, Mode mode, Duration patience) {
  check_any(collected);
  Object decision = decided(collected.limiters, collected.charges, mode, patience, collected.cost.get());
  if (mode == Mode::peek) {
    make_final(decision.get());
    return decision;
  }
  for (const LimiterState* limiter : collected.limiters) {
    announce(Object::borrow(limiter->on_decision.get()), decision);
  }
  return decision;
}

bool prepare_deciding() {
  one = PyLong_FromLong(1);
  cost_name = PyUnicode_InternFromString("cost");
  patience_name = PyUnicode_InternFromString("patience");
  return one != nullptr && cost_name != nullptr && patience_name != nullptr;
}

PyObject* hit(PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* names) {
  return ask_by_keywords<Mode::consume, false>(self, arguments, count, names);
}

PyObject* hit_within(PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* names) {
  return ask_by_keywords<Mode::consume, true>(self, arguments, count, names);
}

PyObject* peek(PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* names) {
  return ask_by_keywords<Mode::peek, false>(self, arguments, count, names);
}

PyObject* peek_within(PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* names) {
  return ask_by_keywords<Mode::peek, true>(self, arguments, count, names);
}

PyObject* charge(PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* names) {
  return ask_by_keywords<Mode::consume, false, Role::always>(self, arguments, count, names);
}

Object charge_more(LimiterState& limiter, const ChargeList& charges, PyObject* cost, RefundClaim& claim) {
  LimiterState* const limiters[] = {&limiter};
  return decided<true>(limiters, charges, Mode::consume, kNever, cost,
                       [&](const auto& action) { claim.use(action); });
}

namespace {

PyObject* decide_given(PyObject* charges, Mode mode, Duration patience = kNever) {
  return guarded(static_cast<PyObject*>(nullptr), [&] {
    const Object given = own_charges(charges);
    ChargesOfLimiters collected;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(given.get()); ++i) {
      collected.add(parse_charge(PyTuple_GET_ITEM(given.get(), i)));
    }
    return decide_all(collected, mode, patience).release();
  });
}

PyObject* decide_given_within(PyObject* const* arguments, Py_ssize_t count, Mode mode) {
  return guarded(static_cast<PyObject*>(nullptr), [&] {
    if (count != 2) raise_type_error("_hit_all_within and _peek_all_within take charges and the patience");
    return decide_given(arguments[0], mode, duration_from(arguments[1], "patience"));
  });
}

}  // namespace

PyObject* hit_all(PyObject*, PyObject* charges) { return decide_given(charges, Mode::consume); }

PyObject* peek_all(PyObject*, PyObject* charges) { return decide_given(charges, Mode::peek); }

PyObject* hit_all_within(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  return decide_given_within(arguments, count, Mode::consume);
}

PyObject* peek_all_within(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  return decide_given_within(arguments, count, Mode::peek);
}

PyObject* checked_charges(PyObject*, PyObject* charges) {
  return guarded(static_cast<PyObject*>(nullptr), [&] {
    const Object given = own_charges(charges);
    Object checked = required(PyTuple_New(PyTuple_GET_SIZE(given.get())));
    ChargesOfLimiters collected;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(given.get()); ++i) {
      GivenCharge charge = parse_charge(PyTuple_GET_ITEM(given.get(), i));
      const WholeCost whole(charge.cost);
      charge.cost = whole.number();
      collected.add(charge);
      Object kept = required(PyTuple_Pack(3, charge.limiter, charge.identifier, charge.cost));
      PyTuple_SET_ITEM(checked.get(), i, kept.release());
    }
    check_any(collected);
    collected.charges.check_cells();
    return checked.release();
  });
}

}  // namespace overlimit::python
