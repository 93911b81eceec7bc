#include "deciding.hpp"

#include <cstddef>
#include <span>
#include <vector>

#include "clock.hpp"
#include "hooks.hpp"
#include "module.hpp"
#include "operations.hpp"

namespace overlimit::python {
namespace {

PyObject* one = nullptr;
PyObject* cost_name = nullptr;
PyObject* patience_name = nullptr;

template <class Charges>
Object counted(Object decision, const Charges& charges, Mode mode) {
  if (mode == Mode::consume) count_decision(decision.get(), charges);
  return decision;
}

template <class Charges>
Object decided_now(std::span<LimiterState* const> limiters, const Charges& collected, Mode mode,
                   Duration patience, PyObject* cost) {
  collected.check_cells();
  Deciding deciding(*limiters.front(), collected, mode, patience);
  const Rows rows = deciding.rows();
  try {
    ask_store(
        limiters, [&](Store& store) { return deciding.decide_here(rows, store); },
        [&](Store& store, const Interrupted& interrupted) { deciding.ask(rows, store, interrupted); });
  } catch (const StoreError& error) {
    return deciding.answer_without(error, limiters, collected, cost);
  }
  return deciding.answer(limiters, collected, rows, cost);
}

// Python logs what the callback raises.
void tell(const LimiterState& limiter, const Object& decision) {
  if (limiter.on_decision.get() == Py_None) return;
  const Object on_decision = Object::borrow(limiter.on_decision.get());
  const RecursionGuard guard;
  call_hook("announce", on_decision.get(), decision.get());
}

// Whether an entry of a hit_first admits, which the decision then says.
bool admits(PyObject* decision, int entry) {
  DecisionObject& parts = parts_of(decision);
  if (parts.answer.status != Status::ok) return false;
  parts.chosen = std::uint8_t(entry);
  return true;
}

Object told(std::span<LimiterState* const> limiters, Mode mode, Object decision) {
  if (mode == Mode::peek) {
    make_final(decision.get());
  } else {
    for (const LimiterState* const limiter : limiters) tell(*limiter, decision);
  }
  return decision;
}

[[noreturn]] void refuse_keyword(PyObject* name) {
  raise(PyExc_TypeError,
        "unexpected keyword argument %R: the only one is cost, and identifiers are given by position, as in "
        "hit('user:42', cost=2)",
        name);
}

/// The value of a keyword, if it is given, behind the arguments by position.
struct Keywords {
  PyObject* cost = one;
  PyObject* patience = Py_None;

  Keywords(PyObject* const* values, PyObject* names, bool takes_patience) {
    if (names == nullptr) return;
    for (PyObject* const name : members_of(names)) {
      const bool is_cost = PyUnicode_Compare(name, cost_name) == 0;
      if (!is_cost && (!takes_patience || PyUnicode_Compare(name, patience_name) != 0)) refuse_keyword(name);
      (is_cost ? cost : patience) = *values++;
    }
  }
};

/// The arguments of hit and its relatives, read once. Borrowed.
struct Given {
  Given(Arguments named, PyObject* names, bool takes_patience)
      : Given(named, Keywords(named.data() + named.size(), names, takes_patience)) {}
  Given(Arguments named, const Keywords& keywords)
      : identifiers(named),
        patience(keywords.patience == Py_None ? kNever : duration_from(keywords.patience, "patience")),
        cost((check_any(named), keywords.cost)),
        units(keywords.cost == one ? 1 : cost.units()) {}

  Arguments identifiers;
  Duration patience;
  WholeCost cost;
  Cost units;

 private:
  static void check_any(Arguments identifiers) {
    if (identifiers.empty()) raise_value_error(kNoIdentifier);
  }
};

template <Mode mode, Role role>
[[gnu::flatten]] Object ask(LimiterState& limiter, const Given& given) {
  LimiterState* const limiters[] = {&limiter};
  if (given.identifiers.size() == 1) [[likely]] {
    // The decision keeps it before anything of Python runs.
    const auto& policy = limiter.policy_for_now();
    const LoneCharge lone(policy.get(), given.identifiers.front(), given.units, role);
    return told(limiters, mode,
                counted(decided_now(limiters, lone, mode, given.patience, given.cost.number()), lone, mode));
  }
  const Object policy = limiter.present_policy();
  ChargeList collected;
  collected.add_each(policy.get(), given.identifiers, given.units, role);
  const CallCharges call = collected.call();
  return told(limiters, mode,
              counted(decided_now(limiters, call, mode, given.patience, given.cost.number()), call, mode));
}

// A template that is inlined, since every hit counts.
template <Mode mode, bool takes_patience, Role role = Role::enforce>
[[gnu::flatten]] PyObject* ask_by_keywords(PyObject* self, PyObject* const* arguments, Py_ssize_t count,
                                           PyObject* names) {
  return guarded(static_cast<PyObject*>(nullptr), [&] {
    const Given given({arguments, std::size_t(count)}, names, takes_patience);
    return ask<mode, role>(state_of_self(self), given).release();
  });
}

template <Mode mode, bool takes_patience, Role role = Role::enforce>
Task asking(LimiterState& limiter, Arguments identifiers, PyObject* names) {
  const Given given(identifiers, names, takes_patience);
  const auto collect = [&](ChargesOfLimiters& collected) {
    collected.add_call(limiter, given.identifiers, given.cost.number(), given.units, role);
  };
  return std::make_unique<DecidingTask>(collect, Manner{mode, given.patience}, limiter.object);
}

template <Mode mode>
Object ask_later(LimiterState& limiter, Arguments identifiers, PyObject* names) {
  return answer_or_pending(asking<mode, true>(limiter, identifiers, names));
}

[[noreturn]] void refuse_charge(PyObject* charge, const char* function) {
  raise(PyExc_TypeError,
        "a charge must be a tuple (limiter, identifier[, cost]), as in %s([(limiter, 'user:42'), "
        "(other, 'ip:203.0.113.7', 2)]), not %U",
        function, call_hook("short_repr", charge).get());
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
  const bool is_short = PyList_Check(charges) || PyTuple_Check(charges);
  return required(PySequence_Tuple(is_short ? charges : call_hook("charges_in", charges).get()));
}

template <Mode mode>
void collect(ChargesOfLimiters& collected, PyObject* given) {
  collected.function = mode == Mode::peek ? "peek_all" : "hit_all";
  for (PyObject* const each : members_of(given)) collected.add(parse_charge(each, collected.function));
}

template <class Answer, Mode mode>
Answer decide_as(const Manner& manner, PyObject* charges) {
  const Object given = own_charges(charges);
  const auto add = [&](ChargesOfLimiters& collected) { collect<mode>(collected, given.get()); };
  return decided<Answer>(add, manner, given.get());
}

template <class Answer, Mode mode>
Answer decide_within(PyObject*, PyObject* charges, PyObject* patience) {
  return decide_as<Answer, mode>({mode, patience_from(patience)}, charges);
}

template <class Answer>
Answer try_all(PyObject*, PyObject* charges, PyObject* patience, std::int64_t place) {
  return decide_as<Answer, Mode::consume>({Mode::consume, patience_from(patience), entry_from(place)},
                                          charges);
}

void note_refusal(PyObject*, Tuple given, PyObject* refusal) {
  std::vector<LimiterState*> limiters;
  for (PyObject* const each : given.members()) {
    if (!is_limiter(each)) refuse_type("a Limiter", each);
    if (std::ranges::find(limiters, &state_of(each)) == limiters.end()) limiters.push_back(&state_of(each));
  }
  if (limiters.empty()) raise_value_error("a refusal is of at least one limiter");
  count_refusal(refusal, limiters.front()->present_policy().get());
  for (const LimiterState* const limiter : limiters) tell(*limiter, Object::borrow(refusal));
}

template <Mode mode>
Object decide_given(PyObject* module, PyObject* charges) {
  return decide_within<Object, mode>(module, charges, Py_None);
}

Object checked_charges(PyObject*, Arguments arguments) {
  if (arguments.empty() || arguments.size() > 2) refuse_arguments(2, arguments.size());
  const Object given = own_charges(arguments.front());
  std::vector<Object> checked;
  ChargesOfLimiters collected;
  const std::string function(arguments.size() > 1 ? text_in(arguments[1]) : "acquire_all");
  collected.function = function.c_str();
  for (PyObject* const each : members_of(given.get())) {
    GivenCharge charge = parse_charge(each, collected.function);
    const WholeCost whole(charge.cost);
    charge.cost = whole.number();
    collected.add(charge);
    checked.push_back(required(PyTuple_Pack(3, charge.limiter, charge.identifier, charge.cost)));
  }
  (void)limiters_of(collected);
  collected.charges.check_cells();
  return tuple_of(checked);
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
    method<ask_later<Mode::consume>>("_hit_later",
                                     "_hit_later($self, /, *identifiers, cost=1, "
                                     "patience=inf)\n--\n\n_hit_within(), to be awaited: returns a "
                                     "PendingCall unless it is answered at once."),
    {"peek", as_c_function(ask_by_keywords<Mode::peek, false>), METH_FASTCALL | METH_KEYWORDS,
     "peek($self, /, *identifiers, cost=1)\n--\n\nReturn the Decision that hit() would give now; nothing is "
     "charged.\n\nSo remaining is what would be left after such a hit; cost=0 shows the present."},
    {"_peek_within", as_c_function(ask_by_keywords<Mode::peek, true>), METH_FASTCALL | METH_KEYWORDS,
     "_peek_within($self, /, *identifiers, cost=1, patience=inf)\n--\n\nReturn the Decision that "
     "_hit_within() would give now; nothing is charged."},
    method<ask_later<Mode::peek>>("_peek_later",
                                  "_peek_later($self, /, *identifiers, cost=1, patience=inf)\n--\n\n"
                                  "_peek_within(), to be awaited.")};

Operation charges[] = {
    {{"charge", as_c_function(ask_by_keywords<Mode::consume, false, Role::always>),
      METH_FASTCALL | METH_KEYWORDS,
      "charge($self, /, *identifiers, cost=1)\n--\n\nCharge this cost whatever is left, and say whether "
      "hit() "
      "would have admitted it.\n\nNever refused, not by a lock either, and sets none. What is owed counts "
      "like "
      "any charge: windows hold more than their limit, buckets owe beyond burst and debt. Arguments and "
      "errors "
      "are those of hit().\n\nReturns\n-------\nDecision\n    allowed and status say what hit() would have "
      "answered; retry_after is from when on the same cost would fit; remaining is what is left, never below "
      "0. "
      "It can be refunded, and settled."},
     call<asking<Mode::consume, false, Role::always>>}};

Operation functions_within[] = {
    operation<decide_within<Object, Mode::consume>, decide_within<Task, Mode::consume>>(
        "_hit_all_within",
        "_hit_all_within(charges, patience, /)\n--\n\nA hit_all() that is refused when its delay would be "
        "longer "
        "than patience seconds, if that is not None."),
    operation<decide_within<Object, Mode::peek>, decide_within<Task, Mode::peek>>(
        "_peek_all_within",
        "_peek_all_within(charges, patience, /)\n--\n\nReturn the Decision that _hit_all_within() would give "
        "now; "
        "nothing is charged."),
    operation<try_all<Object>, try_all<Task>>(
        "_try_all",
        "_try_all(charges, patience, place, /)\n--\n\n_hit_all_within() for the entry of a hit_first() at "
        "this "
        "place, which nobody is told of if it refuses.")};

PyMethodDef functions[] = {
    method<decide_given<Mode::consume>>(
        "hit_all",
        "hit_all(charges, /)\n--\n\nDecide several policies at once: charges are (limiter, identifier, cost) "
        "tuples on one store.\n\nAll or nothing, in one step and at one instant; at most 64 charges. Raises "
        "ValueError for limiters\non different stores or clocks, or for a policy and identifier that occur "
        "twice."),
    method<decide_given<Mode::peek>>(
        "peek_all",
        "peek_all(charges, /)\n--\n\nReturn the Decision that hit_all() would give now; nothing is charged."),
    method<checked_charges>(
        "_checked_charges",
        "_checked_charges(charges, function='acquire_all', /)\n--\n\nReturn the charges of a call as "
        "triples, each cost as an int, or raise what the function of this name raises for "
        "wrong ones."),
    method<note_refusal>(
        "_note_refusal",
        "_note_refusal(limiters, refusal, /)\n--\n\nCount a refusal of _try_all() for metrics, "
        "and call the on_decision of these limiters.")};

}  // namespace

std::span<LimiterState* const> limiters_of(const ChargesOfLimiters& collected) {
  if (collected.limiters.empty()) {
    raise(PyExc_ValueError, "a call must have at least one charge, as in %s([(limiter, 'user:42')])",
          collected.function);
  }
  return collected.limiters;
}

Duration patience_from(PyObject* given) {
  return given == Py_None ? kNever : duration_from(given, "patience");
}

int entry_from(std::int64_t place) {
  if (place < 0 || place >= kMaxChoices) raise_value_error("the place of an entry is from 0 to 15");
  return int(place) + 1;
}

Object finished(const ChargesOfLimiters& collected, const Manner& manner, Object decision) {
  if (manner.entry > 0 && !admits(decision.get(), manner.entry)) return decision;
  return told(collected.limiters, manner.mode,
              counted(std::move(decision), collected.charges.call(), manner.mode));
}

Object decide_all(const ChargesOfLimiters& collected, const Manner& manner) {
  return finished(collected, manner,
                  decided_now(limiters_of(collected), collected.charges.call(), manner.mode, manner.patience,
                              collected.cost.get()));
}

void add_deciding(PyObject* module) {
  one = checked(PyLong_FromLong(1));
  cost_name = checked(PyUnicode_InternFromString("cost"));
  patience_name = checked(PyUnicode_InternFromString("patience"));
  for (PyMethodDef& each : methods) add_method(each);
  add_methods(charges);
  add_functions(module, functions_within);
  add_functions(module, functions);
}

}  // namespace overlimit::python
