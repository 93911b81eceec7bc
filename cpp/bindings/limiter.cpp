#include "limiter.hpp"

#include <atomic>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "charges.hpp"
#include "counting.hpp"
#include "deciding.hpp"
#include "decision.hpp"
#include "errors.hpp"
#include "handles.hpp"
#include "hooks.hpp"
#include "on_error.hpp"
#include "overlimit/errors.hpp"
#include "overlimit/forks.hpp"
#include "policy.hpp"
#include "refunding.hpp"
#include "stats.hpp"
#include "store_task.hpp"

namespace overlimit::python {
namespace {

PyTypeObject* limiter_type = nullptr;

LimiterObject& of(PyObject* self) { return *reinterpret_cast<LimiterObject*>(self); }

// A call about one identifier, and the policy that its charge borrows.
class OneIdentifier : NonCopyable {
 public:
  OneIdentifier(const LimiterState& limiter, PyObject* identifier)
      : identifier_(Object::borrow(identifier)), policy_(limiter.present_policy()) {
    collected_.add(policy_.get(), identifier, 1);
    timed_.emplace(limiter, collected_.charges());
  }
  [[nodiscard]] const Call& call() { return **timed_; }

 private:
  Object identifier_;
  Object policy_;
  ChargeList collected_;
  std::optional<TimedCall> timed_;
};

// Runs an action where the limiter's local fallback may have decided in the place of its store.
template <class Action>
void follow_in_fallback(const LimiterState& limiter, const Action& action) {
  if (limiter.on_error != OnError::local || !limiter.store->waits()) return;
  action(*local_fallback_store(limiter.store_object.get()), kInterrupted);
}

/// Drops all that is kept for some identifiers, or for all, in a policy.
class Reset : NonCopyable {
 public:
  explicit Reset(PolicyIdentity policy) : policy_(std::move(policy)) {}
  Reset(PolicyIdentity policy, std::span<PyObject* const> identifiers) : Reset(std::move(policy)) {
    if (identifiers.empty()) raise_value_error(kNoIdentifier);
    for (PyObject* const identifier : identifiers) {
      kept_.push_back(Object::borrow(identifier));
      identifiers_.push_back(bytes_.view(identifier));
    }
  }

  void operator()(Store& store, const Interrupted& interrupted) const {
    if (identifiers_.empty()) return store.reset_all(policy_, interrupted);
    store.reset(policy_, identifiers_, interrupted);
  }

 private:
  PolicyIdentity policy_;
  IdentifierBytes bytes_;
  std::vector<Object> kept_;
  std::vector<std::string_view> identifiers_;
};

std::span<PyObject* const> members_of(PyObject* tuple) {
  return {PySequence_Fast_ITEMS(tuple), static_cast<std::size_t>(PyTuple_GET_SIZE(tuple))};
}

// A task of a limiter's store that answers None, with `limiter` to count it.
template <class Ask, class Answer>
std::unique_ptr<StoreTask> task_of(LimiterState& of, LimiterState* counts, Ask ask, Answer answer) {
  return task_of(of.store, counts, Object::borrow(of.object), std::move(ask), [answer = std::move(answer)] {
    answer();
    return Object::borrow(Py_None);
  });
}

template <When when>
PyObject* reset(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
  return guarded(static_cast<PyObject*>(nullptr), [&] {
    LimiterState& limiter = state_of(self);
    const std::span identifiers(arguments, static_cast<std::size_t>(count));
    const auto reset = std::make_shared<const Reset>(limiter.identity, identifiers);
    return done<when>(task_of(
        limiter, &limiter,
        [reset](Store& store, const Interrupted& interrupted) { (*reset)(store, interrupted); },
        [reset, &limiter] { follow_in_fallback(limiter, *reset); }));
  });
}

template <When when>
PyObject* reset_all(PyObject* self, PyObject*) {
  return guarded(static_cast<PyObject*>(nullptr), [&] {
    LimiterState& limiter = state_of(self);
    const auto reset = std::make_shared<const Reset>(limiter.identity);
    return done<when>(task_of(
        limiter, nullptr,
        [reset](Store& store, const Interrupted& interrupted) { (*reset)(store, interrupted); },
        [reset, &limiter] { follow_in_fallback(limiter, *reset); }));
  });
}

// By the name of a policy, whatever its limits, also where the local fallback of a store has decided.
PyObject* reset_name(PyObject*, PyObject* arguments) {
  return guarded(static_cast<PyObject*>(nullptr), [&] {
    PyObject* store = nullptr;
    PyObject* name = nullptr;
    PyObject* identifiers = nullptr;
    if (!PyArg_ParseTuple(arguments, "OUO", &store, &name, &identifiers)) throw PythonError{};
    const bool is_of_all = identifiers == Py_None;
    if (!is_of_all && !PyTuple_Check(identifiers)) raise_type_error("identifiers must be a tuple or None");
    const std::shared_ptr<Store> opened = store_from(store);
    const PolicyIdentity policy = identity_from(name);
    const Reset reset = is_of_all ? Reset(policy) : Reset(policy, members_of(identifiers));
    without_gil([&](const Interrupted& interrupted) { reset(*opened, interrupted); });
    if (opened->waits()) reset(*local_fallback_store(store), kInterrupted);
    return Py_NewRef(Py_None);
  });
}

template <When when>
PyObject* lock(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
  return guarded(static_cast<PyObject*>(nullptr), [&] {
    if (count != 2) raise_type_error("_lock takes an identifier and microseconds");
    LimiterState& limiter = state_of(self);
    const Duration duration(PyLong_AsLongLong(arguments[1]));
    if (PyErr_Occurred() != nullptr) throw PythonError{};
    if (duration < kMicrosecond || duration > kMaxPeriod)
      raise_value_error("a lock lasts from 1 to 2**49 microseconds");
    const auto one = std::make_shared<OneIdentifier>(limiter, arguments[0]);
    return done<when>(task_of(
        limiter, &limiter,
        [one, duration](Store& store, const Interrupted& interrupted) {
          store.lock(one->call(), duration, interrupted);
        },
        [] {}));
  });
}

template <When when>
PyObject* unlock(PyObject* self, PyObject* identifier) {
  return guarded(static_cast<PyObject*>(nullptr), [&] {
    LimiterState& limiter = state_of(self);
    const auto one = std::make_shared<OneIdentifier>(limiter, identifier);
    const auto lift = [one](Store& store, const Interrupted& interrupted) {
      store.unlock(one->call(), interrupted);
    };
    return done<when>(
        task_of(limiter, &limiter, lift, [lift, &limiter] { follow_in_fallback(limiter, lift); }));
  });
}

// Asks the store for an answer, within so many seconds or None.
PyObject* ping_later(PyObject* self, PyObject* timeout) {
  return guarded(static_cast<PyObject*>(nullptr), [&] {
    LimiterState& limiter = state_of(self);
    const std::optional<Duration> longest = store_timeout_from(timeout);
    const auto took = std::make_shared<Duration>();
    return done<When::later>(task_of(
        limiter.store, nullptr, Object::borrow(self),
        [took, longest](Store& store, const Interrupted& interrupted) {
          *took = store.ping(longest, interrupted);
        },
        [took] { return required(PyFloat_FromDouble(took->seconds())); }));
  });
}

// Closes what an event loop has of the limiter's store.
PyObject* close_later(PyObject* self, PyObject*) {
  return guarded(static_cast<PyObject*>(nullptr), [&] {
    return done<When::later>(task_of(
        state_of(self), nullptr, [](Store& store, const Interrupted&) { store.close(); }, [] {}));
  });
}

// What the store itself has counted; where both have counted the same, the limiter's own figures are shown.
void add_stats_of_store(PyObject* stats, PyObject* store) {
  if (PyObject_HasAttrString(store, "stats") == 0) return;
  const Object theirs = required(PyObject_CallMethod(store, "stats", nullptr));
  if (PyDict_Merge(stats, theirs.get(), 0) < 0) throw PythonError{};
}

// The breaker is that of the threads, or that of the event loop that awaits the answer.
template <When when>
PyObject* stats(PyObject* self, PyObject*) {
  return guarded(static_cast<PyObject*>(nullptr), [&] {
    LimiterState& limiter = state_of(self);
    const auto breaker = std::make_shared<BreakerState>();
    return done<when>(task_of(
        limiter.store, nullptr, Object::borrow(self),
        [breaker](Store& store, const Interrupted&) { *breaker = store.breaker(); },
        [breaker, &limiter] {
          if (limiter.called_after != LimiterState::kNotCalled) notice_call(limiter);
          Object stats =
              required(stats_dict(limiter.stats, *breaker, limiter.store->leased(limiter.identity)));
          add_stats_of_store(stats.get(), limiter.store_object.get());
          return stats;
        }));
  });
}

// The policy of these limits; `local_limits` are those of its local fallback, or the same tuple.
Object policy_of(const PolicyIdentity& identity, PyObject* limits, PyObject* penalty,
                 PyObject* local_limits) {
  if (local_limits == Py_None || local_limits == limits) return new_policy(identity, limits, penalty);
  if (!PyTuple_Check(local_limits)) raise_type_error("local_limits must be a tuple");
  if (PyTuple_GET_SIZE(local_limits) != PyTuple_GET_SIZE(limits)) {
    raise_value_error("local_limits must have a limit for each of limits");
  }
  return new_policy(identity, limits, penalty, new_policy(identity, local_limits, penalty));
}

// Other processes find counts by a name.
void check_has_name(PyObject* name, const Store& store, PyObject* store_object) {
  if (name != Py_None || !store.is_shared()) return;
  PyErr_Format(PyExc_ValueError,
               "a limiter on %R needs name=: other processes see that store and find a limiter's counts by "
               "its name; write for example name='login'",
               store_object);
  throw PythonError{};
}

// Pairs of limits, this limiter's and the other's, that share a record and have different numbers.
PyObject* unlike_limits(PyObject* self, PyObject* other) {
  return guarded(static_cast<PyObject*>(nullptr), [&] {
    const Object mine = state_of(self).present_policy();
    const Object theirs = state_of(other).present_policy();
    Object pairs = required(PyList_New(0));
    for (const auto& [place, other_place] : unlike_places(compiled(mine.get()), compiled(theirs.get()))) {
      const Object pair =
          required(PyTuple_Pack(2, PyTuple_GET_ITEM(limits_of(mine.get()), Py_ssize_t(place)),
                                PyTuple_GET_ITEM(limits_of(theirs.get()), Py_ssize_t(other_place))));
      if (PyList_Append(pairs.get(), pair.get()) < 0) throw PythonError{};
    }
    return pairs.release();
  });
}

void compare_with_namesakes(const LimiterState& limiter) {
  call_hook("compare_with_namesakes", limiter.object);
}

// Memory is not shared with the parent: worth one warning, which Python gives.
void warn_of_fork(const LimiterState& limiter) {
  if (limiter.store->waits()) return;
  call_hook("warn_of_fork", name_of(limiter.present_policy().get()));
}

}  // namespace

// Of the threads that come here one does each of these, before any of them counts a call.
void notice_first_call(LimiterState& limiter, std::uint64_t now) {
  bool is_compared = false;
  bool is_forked = false;
  {
    const ObjectLock lock(limiter.object);
    const std::uint64_t before = limiter.called_after;
    is_forked = (before == LimiterState::kNotCalled ? limiter.made_after : before) != now;
    if (is_forked) limiter.stats.clear();
    limiter.called_after = now;
    is_compared = limiter.is_compared;
    limiter.is_compared = true;
  }
  open_counters_file();
  find_counters(limiter);
  if (!is_compared) compare_with_namesakes(limiter);
  if (is_forked) warn_of_fork(limiter);
}

namespace {

// Calls under way go on with the policy they began with.
PyObject* set_limits(PyObject* self, PyObject* arguments) {
  return guarded(static_cast<PyObject*>(nullptr), [&] {
    PyObject* limits = nullptr;
    PyObject* local_limits = nullptr;
    if (!PyArg_ParseTuple(arguments, "O!O", &PyTuple_Type, &limits, &local_limits)) throw PythonError{};
    LimiterState& limiter = state_of(self);
    const Object old = limiter.present_policy();
    Object policy = policy_of(limiter.identity, limits, penalty_of(old.get()), local_limits);
    const ObjectLock lock(self);
    succeed(limiter.policy.get(), policy.get());
    limiter.policy = std::move(policy);  // the old one ends where no lock is held
    limiter.is_compared = false;
    return Py_NewRef(Py_None);
  });
}

constexpr const char* kInitialisedBefore = "a Limiter is initialised once: build another one";

// Reading the arguments may have run code that calls __init__.
void set_state(LimiterObject& object, std::unique_ptr<LimiterState> state) {
  LimiterState* none = nullptr;
  if (!object.state.compare_exchange_strong(none, state.get())) raise_value_error(kInitialisedBefore);
  (void)state.release();
}

// Another limiter of the same type, identity and options, under other limits. Its __init__ is not called.
PyObject* derive(PyObject* self, PyObject* arguments) {
  return guarded(static_cast<PyObject*>(nullptr), [&] {
    const LimiterState& like = state_of(self);
    PyObject* limits = nullptr;
    PyObject* local_limits = nullptr;
    if (!PyArg_ParseTuple(arguments, "O!O", &PyTuple_Type, &limits, &local_limits)) throw PythonError{};
    const Object old = like.present_policy();
    Object derived = required(Py_TYPE(self)->tp_alloc(Py_TYPE(self), 0));
    std::unique_ptr<LimiterState> state(new LimiterState{
        .identity = like.identity,
        .policy = policy_of(like.identity, limits, penalty_of(old.get()), local_limits),
        .store_object = Object::borrow(like.store_object.get()),
        .store = like.store,
        .clock = ClockSource(like.clock.object()),
        .on_decision = Object::borrow(like.on_decision.get()),
        .on_error = like.on_error,
        .object = derived.get(),
        .made_after = like.made_after,
    });
    set_state(of(derived.get()), std::move(state));
    return derived.release();
  });
}

int initialise(PyObject* self, PyObject* arguments, PyObject* keywords) {
  return guarded(-1, [&] {
    static const char* names[] = {"name",        "limits",   "store",        "clock", "penalty",
                                  "on_decision", "on_error", "local_limits", nullptr};
    PyObject* name = nullptr;
    PyObject* limits = nullptr;
    PyObject* store = nullptr;
    PyObject* clock = Py_None;
    PyObject* penalty = Py_None;
    PyObject* on_decision = Py_None;
    PyObject* on_error = nullptr;
    PyObject* local_limits = Py_None;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "OO!O|OOOOO:Limiter", const_cast<char**>(names),
                                     &name, &PyTuple_Type, &limits, &store, &clock, &penalty, &on_decision,
                                     &on_error, &local_limits)) {
      throw PythonError{};
    }
    if (of(self).state != nullptr) raise_value_error(kInitialisedBefore);
    std::shared_ptr<Store> opened = store_from(store);
    check_has_name(name, *opened, store);
    const PolicyIdentity identity = identity_from(name);
    std::unique_ptr<LimiterState> state(new LimiterState{
        .identity = identity,
        .policy = policy_of(identity, limits, penalty, local_limits),
        .store_object = Object::borrow(store),
        .store = std::move(opened),
        .clock = ClockSource(clock),
        .on_decision = Object::borrow(on_decision),
        .on_error = on_error == nullptr ? OnError::raise : on_error_from(on_error),
        .object = self,
        .made_after = fork_generation(),
    });
    set_state(of(self), std::move(state));
    return 0;
  });
}

int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (const LimiterState* const state = of(self).state) {
    Py_VISIT(state->policy.get());
    Py_VISIT(state->store_object.get());
    Py_VISIT(state->clock.object());
    Py_VISIT(state->clock.reader());
    Py_VISIT(state->on_decision.get());
  }
  return 0;
}

int clear(PyObject* self) {
  if (LimiterState* const state = of(self).state) {
    state->store_object = Object::borrow(Py_None);
    state->clock.clear();
    state->on_decision = Object::borrow(Py_None);
  }
  return 0;
}

void destroy(PyObject* self) {
  PyObject_GC_UnTrack(self);
  PyTypeObject* type = Py_TYPE(self);
  delete of(self).state.load();
  type->tp_free(self);
  Py_DECREF(type);
}

/// A property whose value `get` borrows from the limiter; nullptr: None.
template <auto get>
PyObject* property(PyObject* self, void*) {
  return guarded(static_cast<PyObject*>(nullptr), [&] {
    PyObject* const value = get(state_of(self));
    return Py_NewRef(value == nullptr ? Py_None : value);
  });
}

/// A property that `get` borrows from the policy of the limiter.
template <auto get>
PyObject* policy_property(PyObject* self, void*) {
  return guarded(static_cast<PyObject*>(nullptr),
                 [&] { return Py_NewRef(get(state_of(self).present_policy().get())); });
}

PyObject* get_on_error(PyObject* self, void*) {
  return guarded(static_cast<PyObject*>(nullptr),
                 [&] { return PyUnicode_InternFromString(name_of(state_of(self).on_error)); });
}

PyObject* get_tells_time_time(PyObject* self, void*) {
  return guarded(static_cast<PyObject*>(nullptr),
                 [&] { return PyBool_FromLong(state_of(self).clock.is_time_time()); });
}

PyMethodDef methods[] = {
    {"hit", as_c_function(hit), METH_FASTCALL | METH_KEYWORDS,
     "hit($self, /, *identifiers, cost=1)\n--\n\nDecide whether these identifiers may spend this cost, and "
     "charge it if they may.\n\nEvery limit is checked for every identifier; if any refuses, nothing is "
     "charged.\n\nParameters\n----------\nidentifiers : str or bytes\n    Who is limited, such as 'user:42': "
     "1 to 16 of them, duplicates counting once.\ncost : int\n    What the call spends, 0 or more; 0 asks "
     "and charges nothing.\n\nReturns\n-------\nDecision\n    Truthy when the call may pass. A refusal is "
     "not an exception.\n\nRaises\n------\nValueError, TypeError\n    A wrong argument; nothing was "
     "charged.\nStoreError\n    The store cannot answer, within its timeout, and on_error is 'raise'."},
    {"_hit_within", as_c_function(hit_within), METH_FASTCALL | METH_KEYWORDS,
     "_hit_within($self, /, *identifiers, cost=1, patience=inf)\n--\n\nA hit that is refused when its delay "
     "would be longer than patience seconds."},
    {"peek", as_c_function(peek), METH_FASTCALL | METH_KEYWORDS,
     "peek($self, /, *identifiers, cost=1)\n--\n\nReturn the Decision that hit() would give now; nothing is "
     "charged.\n\nSo remaining is what would be left after such a hit; cost=0 shows the present."},
    {"_peek_within", as_c_function(peek_within), METH_FASTCALL | METH_KEYWORDS,
     "_peek_within($self, /, *identifiers, cost=1, patience=inf)\n--\n\nReturn the Decision that "
     "_hit_within() would give now; nothing is charged."},
    {"charge", as_c_function(charge), METH_FASTCALL | METH_KEYWORDS,
     "charge($self, /, *identifiers, cost=1)\n--\n\nCharge this cost whatever is left, and say whether hit() "
     "would have admitted it.\n\nNever refused, not by a lock either, and sets none. What is owed counts "
     "like "
     "any charge: windows hold more than their limit, buckets owe beyond burst and debt. Arguments and "
     "errors "
     "are those of hit().\n\nReturns\n-------\nDecision\n    allowed and status say what hit() would have "
     "answered; retry_after is from when on the same cost would fit; remaining is what is left, never below "
     "0. "
     "It can be refunded, and settled."},
    {"settle", as_c_function(settle), METH_FASTCALL,
     "settle($self, decision, cost, /)\n--\n\nMake an admitted call cost what it turned out to cost."},
    {"refund", refund, METH_O,
     "refund($self, decision, /)\n--\n\nGive back what a decision charged, once, where it was charged."},
    {"_refund_part", as_c_function(refund_part), METH_FASTCALL,
     "_refund_part($self, decision, places, /)\n--\n\nGive back what a decision charged to some of its "
     "charges, by their places; no more of it can be given back then."},
    {"_lock", as_c_function(lock<When::now>), METH_FASTCALL,
     "_lock($self, identifier, microseconds, /)\n--\n\nRefuse an identifier for this long from now."},
    {"unlock", unlock<When::now>, METH_O,
     "unlock($self, identifier, /)\n--\n\nLift the lock of an identifier; what was counted stays."},
    {"reset", as_c_function(reset<When::now>), METH_FASTCALL,
     "reset($self, /, *identifiers)\n--\n\nRemove everything that is stored for these identifiers in this "
     "policy."},
    {"_lease_bounds", lease_bounds, METH_NOARGS,
     "_lease_bounds($self, /)\n--\n\nReturn how many microseconds a lease lasts at most, and how many units "
     "are leased here."},
    {"reset_all", reset_all<When::now>, METH_NOARGS,
     "reset_all($self, /)\n--\n\nRemove everything that is stored for this policy."},
    {"stats", stats<When::now>, METH_NOARGS,
     "stats($self, /)\n--\n\nReturn what this limiter has counted of its calls to the store, in this "
     "process, as a new dict.\n\n"
     "calls: how often the store was asked to decide, refund, lock or reset; errors: how many of these "
     "failed, by\nkind; timeouts: of these the deadlines missed; local: decisions made in this process "
     "instead; crowded: decisions by counts that identifiers share because a memory store had no room left; "
     "\nleased: decisions by what this process had charged early (lease); held: units charged early and not "
     "spent; returned: those given back unspent; lapsed: those lost unspent, as with a connection; refusals: "
     "what this process refused by what it was told (max_stale), so not those of the server; asked: commands "
     "sent to Redis for decisions, with those that give back leases or restore counts; restored: keys whose "
     "counts this process has brought back after the server had lost them (remember); "
     "breaker:\n'closed', 'open' or 'half_open'; latency: an upper bound in seconds -> how many calls took "
     "that long and\nlonger than the bound before, the last one being inf; counted for stores that wait "
     "only."},
    {"_hit_later", as_c_function(hit_later), METH_FASTCALL | METH_KEYWORDS,
     "_hit_later($self, /, *identifiers, cost=1, patience=inf)\n--\n\n_hit_within(), to be awaited, like all "
     "of "
     "these: each returns a PendingCall."},
    {"_peek_later", as_c_function(peek_later), METH_FASTCALL | METH_KEYWORDS,
     "_peek_later($self, /, *identifiers, cost=1, patience=inf)\n--\n\n_peek_within(), to be awaited."},
    {"_charge_later", as_c_function(charge_later), METH_FASTCALL | METH_KEYWORDS,
     "_charge_later($self, /, *identifiers, cost=1)\n--\n\ncharge(), to be awaited."},
    {"_settle_later", as_c_function(settle_later), METH_FASTCALL,
     "_settle_later($self, decision, cost, /)\n--\n\nsettle(), to be awaited."},
    {"_refund_later", refund_later, METH_O,
     "_refund_later($self, decision, /)\n--\n\nrefund(), to be awaited."},
    {"_refund_part_later", as_c_function(refund_part_later), METH_FASTCALL,
     "_refund_part_later($self, decision, places, /)\n--\n\n_refund_part(), to be awaited."},
    {"_lock_later", as_c_function(lock<When::later>), METH_FASTCALL,
     "_lock_later($self, identifier, microseconds, /)\n--\n\n_lock(), to be awaited."},
    {"_unlock_later", unlock<When::later>, METH_O,
     "_unlock_later($self, identifier, /)\n--\n\nunlock(), to be awaited."},
    {"_reset_later", as_c_function(reset<When::later>), METH_FASTCALL,
     "_reset_later($self, /, *identifiers)\n--\n\nreset(), to be awaited."},
    {"_reset_all_later", reset_all<When::later>, METH_NOARGS,
     "_reset_all_later($self, /)\n--\n\nreset_all(), to be awaited."},
    {"_stats_later", stats<When::later>, METH_NOARGS,
     "_stats_later($self, /)\n--\n\nstats(), to be awaited, with the breaker of the event loop."},
    {"_ping_later", ping_later, METH_O, "_ping_later($self, timeout, /)\n--\n\nStore.ping(), to be awaited."},
    {"_close_later", close_later, METH_NOARGS,
     "_close_later($self, /)\n--\n\nClose what the event loop has open for the store; to be awaited."},
    {"_count_wait", count_wait, METH_O,
     "_count_wait($self, microseconds, /)\n--\n\nCount for metrics that a caller has waited so long, or with "
     "None that one begins to."},
    {"_unlike_limits", unlike_limits, METH_O,
     "_unlike_limits($self, other, /)\n--\n\nPairs of limits, this limiter's and the other's, that are alike "
     "in all but their numbers."},
    {"_derive", derive, METH_VARARGS,
     "_derive($self, limits, local_limits, /)\n--\n\nReturn a limiter with the same counts and options, "
     "under "
     "other limits."},
    {"_set_limits", set_limits, METH_VARARGS,
     "_set_limits($self, limits, local_limits, /)\n--\n\nReplace the limits."},
    {nullptr, nullptr, 0, nullptr}};

PyGetSetDef properties[] = {
    {"name", policy_property<[](PyObject* policy) { return name_of(policy); }>, nullptr,
     "The policy's name, which is part of the key, or None.", nullptr},
    {"limits", policy_property<limits_of>, nullptr, "The limits, in the order given.", nullptr},
    {"penalty", policy_property<penalty_of>, nullptr, "The penalty, or None.", nullptr},
    {"store", property<[](const LimiterState& limiter) { return limiter.store_object.get(); }>, nullptr,
     "The store that decides.", nullptr},
    {"on_error", get_on_error, nullptr,
     "What a call answers when the store fails: \"raise\", \"allow\", \"deny\" or \"local\".", nullptr},
    {"clock", property<[](const LimiterState& limiter) { return limiter.clock.object(); }>, nullptr,
     "The clock, or None for the store's own.", nullptr},
    {"_tells_time_time", get_tells_time_time, nullptr,
     "Whether the clock is time.time, whoever has patched it.", nullptr},
    {"on_decision", property<[](const LimiterState& limiter) { return limiter.on_decision.get(); }>, nullptr,
     "Who is told of every decision, or None.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyType_Slot slots[] = {
    {Py_tp_doc, const_cast<char*>("Limiter(name, limits, store, clock=None, penalty=None, on_decision=None, "
                                  "on_error='raise', local_limits=None)\n--\n\n"
                                  "The core of overlimit.Limiter.")},
    {Py_tp_init, reinterpret_cast<void*>(initialise)},
    {Py_tp_dealloc, reinterpret_cast<void*>(destroy)},
    {Py_tp_traverse, reinterpret_cast<void*>(traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(clear)},
    {Py_tp_methods, methods},
    {Py_tp_getset, properties},
    {0, nullptr}};

PyObject* fork_generation_of_process(PyObject*, PyObject*) {
  return PyLong_FromUnsignedLongLong(fork_generation());
}

PyType_Spec spec = {"overlimit._core.Limiter", sizeof(LimiterObject), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, slots};

PyMethodDef functions[] = {
    {"_reset", reset_name, METH_VARARGS,
     "_reset(store, name, identifiers, /)\n--\n\nRemove everything that is stored for these identifiers, or "
     "with None for all, in the policy of a name."},
    {"_fork_generation", fork_generation_of_process, METH_NOARGS,
     "_fork_generation()\n--\n\nReturn how many forks lie between this process and the one that imported the "
     "package."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

bool add_limiter(PyObject* module) {
  limiter_type = reinterpret_cast<PyTypeObject*>(PyType_FromModuleAndSpec(module, &spec, nullptr));
  return limiter_type != nullptr && PyModule_AddType(module, limiter_type) == 0 && add_deciding(module) &&
         PyModule_AddFunctions(module, functions) == 0;
}

bool is_limiter(PyObject* object) { return PyObject_TypeCheck(object, limiter_type) != 0; }

LimiterState& state_of(PyObject* limiter) {
  if (!is_limiter(limiter)) {
    raise_about(PyExc_TypeError, "expected a Limiter, not %U", limiter);
  }
  return state_of_self(limiter);
}

void raise_uninitialised() {
  PyErr_SetString(PyExc_RuntimeError,
                  "this Limiter was not initialised: its __init__ was never called or did not finish");
  throw PythonError{};
}

}  // namespace overlimit::python
