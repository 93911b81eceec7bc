#include "limiter.hpp"

#include "hooks.hpp"
#include "module.hpp"
#include "policy.hpp"

namespace overlimit::python {
namespace {

PyTypeObject* limiter_type = nullptr;

LimiterObject& of(PyObject* self) { return *reinterpret_cast<LimiterObject*>(self); }

// The policy of these limits; `local_limits` are those of its local fallback, or the same tuple.
Object policy_of(const PolicyIdentity& identity, Tuple limits, PyObject* penalty, PyObject* local_limits) {
  if (local_limits == Py_None || local_limits == limits.object) return new_policy(identity, limits, penalty);
  const Tuple local = From<Tuple>::get(local_limits);
  if (local.members().size() != limits.members().size())
    raise_value_error("local_limits must have a limit for each of limits");
  return new_policy(identity, limits, penalty, new_policy(identity, local, penalty));
}

// Other processes find counts by a name.
void check_has_name(PyObject* name, const Store& store, PyObject* store_object) {
  if (name != Py_None || !store.is_shared()) return;
  raise(PyExc_ValueError,
        "a limiter on %R needs name=: other processes see that store and find a limiter's counts by "
        "its name; write for example name='login'",
        store_object);
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
  if (!is_compared) call_hook("compare_with_namesakes", limiter.object);
  // Memory is not shared with the parent: worth one warning, which Python gives.
  if (is_forked && !limiter.store->waits())
    call_hook("warn_of_fork", name_of(limiter.present_policy().get()));
}

namespace {

// Calls under way go on with the policy they began with.
void set_limits(LimiterState& limiter, Tuple limits, PyObject* local_limits) {
  const Object old = limiter.present_policy();
  Object policy = policy_of(limiter.identity, limits, penalty_of(old.get()), local_limits);
  const ObjectLock lock(limiter.object);
  succeed(limiter.policy.get(), policy.get());
  std::swap(limiter.policy, policy);  // the old one ends where no lock is held
  limiter.is_compared = false;
}

constexpr const char* kInitialisedBefore = "a Limiter is initialised once: build another one";

// Reading the arguments may have run code that calls __init__.
void set_state(LimiterObject& object, std::unique_ptr<LimiterState> state) {
  LimiterState* none = nullptr;
  if (!object.state.compare_exchange_strong(none, state.get())) raise_value_error(kInitialisedBefore);
  (void)state.release();
}

// Another limiter of the same type, identity and options, under other limits. Its __init__ is not called.
Object derive(LimiterState& like, Tuple limits, PyObject* local_limits) {
  const Object old = like.present_policy();
  PyTypeObject* const type = Py_TYPE(like.object);
  Object derived = required(type->tp_alloc(type, 0));
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
  return derived;
}

void initialise(PyObject* self, PyObject* name, Tuple limits, PyObject* store, PyObject* clock,
                PyObject* penalty, PyObject* on_decision, PyObject* on_error, PyObject* local_limits) {
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
      .on_error = on_error_from(on_error),
      .object = self,
      .made_after = fork_generation(),
  });
  set_state(of(self), std::move(state));
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

// (how long a lease lasts at most in microseconds, how many units are leased)
PyObject* lease_bounds(LimiterState& limiter) {
  const Duration longest = limiter.store->longest_lease(compiled(limiter.present_policy().get()));
  const std::uint64_t held = limiter.store->leased(limiter.identity).held;
  return Py_BuildValue("(LK)", static_cast<long long>(longest.micros()),
                       static_cast<unsigned long long>(held));
}

/// A property whose value `get` borrows from the limiter; nullptr: None.
template <auto get>
Object borrowed(LimiterState& limiter) {
  PyObject* const value = get(limiter);
  return Object::borrow(value == nullptr ? Py_None : value);
}

/// A property that `get` borrows from the policy of the limiter.
template <auto get>
Object of_policy(LimiterState& limiter) {
  return Object::borrow(get(limiter.present_policy().get()));
}

PyObject* get_on_error(LimiterState& limiter) {
  return PyUnicode_InternFromString(name_of(limiter.on_error));
}

bool is_clock_time_time(LimiterState& limiter) { return limiter.clock.is_time_time(); }

PyMethodDef methods[] = {
    method<lease_bounds>(
        "_lease_bounds",
        "_lease_bounds($self, /)\n--\n\nReturn how many microseconds a lease lasts at most, and "
        "how many units are leased here."),
    method<count_wait>(
        "_count_wait",
        "_count_wait($self, microseconds, /)\n--\n\nCount for metrics that a caller has waited "
        "so long, or with None that one begins to."),
    method<derive>("_derive",
                   "_derive($self, limits, local_limits, /)\n--\n\nReturn a limiter with the same counts and "
                   "options, under other limits."),
    method<set_limits>("_set_limits",
                       "_set_limits($self, limits, local_limits, /)\n--\n\nReplace the limits."),
    {}};

PyGetSetDef properties[] = {
    property<of_policy<[](PyObject* policy) { return name_of(policy); }>>(
        "name", "The policy's name, which is part of the key, or None."),
    property<of_policy<limits_of>>("limits", "The limits, in the order given."),
    property<of_policy<penalty_of>>("penalty", "The penalty, or None."),
    property<borrowed<[](const LimiterState& limiter) { return limiter.store_object.get(); }>>(
        "store", "The store that decides."),
    property<get_on_error>(
        "on_error", "What a call answers when the store fails: \"raise\", \"allow\", \"deny\" or \"local\"."),
    property<borrowed<[](const LimiterState& limiter) { return limiter.clock.object(); }>>(
        "clock", "The clock, or None for the store's own."),
    property<is_clock_time_time>("_tells_time_time",
                                 "Whether the clock is time.time, whoever has patched it."),
    property<borrowed<[](const LimiterState& limiter) { return limiter.on_decision.get(); }>>(
        "on_decision", "Who is told of every decision, or None."),
    {}};

PyType_Slot slots[] = {
    {Py_tp_doc, const_cast<char*>("Limiter(name, limits, store, clock, penalty, on_decision, on_error, "
                                  "local_limits, /)\n--\n\nThe core of overlimit.Limiter.")},
    {Py_tp_init, init<initialise>()},
    {Py_tp_dealloc, reinterpret_cast<void*>(destroy)},
    {Py_tp_traverse, reinterpret_cast<void*>(traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(clear)},
    {Py_tp_methods, methods},
    {Py_tp_getset, properties},
    {0, nullptr}};

PyType_Spec spec = {"overlimit._core.Limiter", sizeof(LimiterObject), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, slots};

PyMethodDef functions[] = {method<[](PyObject*) { return fork_generation(); }>(
    "_fork_generation",
    "_fork_generation()\n--\n\nReturn how many forks lie between this process and the one that imported the "
    "package.")};

}  // namespace

void add_limiter(PyObject* module) {
  limiter_type = add_type(module, spec);
  add_functions(module, functions);
}

void add_method(PyMethodDef& method) {
  const Object added = required(PyDescr_NewMethod(limiter_type, &method));
  if (PyObject_SetAttrString(reinterpret_cast<PyObject*>(limiter_type), method.ml_name, added.get()) < 0)
    throw PythonError{};
}

bool is_limiter(PyObject* object) { return PyObject_TypeCheck(object, limiter_type) != 0; }

LimiterState& state_of(PyObject* limiter) {
  if (!is_limiter(limiter)) {
    raise_about(PyExc_TypeError, "expected a Limiter, not %U", limiter);
  }
  return state_of_self(limiter);
}

void raise_uninitialised() {
  raise(PyExc_RuntimeError,
        "this Limiter was not initialised: its __init__ was never called or did not finish");
}

}  // namespace overlimit::python
