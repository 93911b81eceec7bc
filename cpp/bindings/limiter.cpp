#include "limiter.hpp"

#include <atomic>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "deciding.hpp"
#include "decision.hpp"
#include "errors.hpp"
#include "handles.hpp"
#include "hooks.hpp"
#include "on_error.hpp"
#include "overlimit/errors.hpp"
#include "overlimit/forks.hpp"
#include "policy.hpp"
#include "stats.hpp"

namespace overlimit::python {
namespace {

PyTypeObject* limiter_type = nullptr;

LimiterObject& of(PyObject* self) { return *reinterpret_cast<LimiterObject*>(self); }

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

PyMethodDef methods[] = {{"_lease_bounds", lease_bounds, METH_NOARGS,
                          "_lease_bounds($self, /)\n--\n\nReturn how many microseconds a lease lasts at "
                          "most, and how many units are leased here."},
                         {"_count_wait", count_wait, METH_O,
                          "_count_wait($self, microseconds, /)\n--\n\nCount for metrics that a caller has "
                          "waited so long, or with None that one begins to."},
                         {"_unlike_limits", unlike_limits, METH_O,
                          "_unlike_limits($self, other, /)\n--\n\nPairs of limits, this limiter's and the "
                          "other's, that are alike in all but their numbers."},
                         {"_derive", derive, METH_VARARGS,
                          "_derive($self, limits, local_limits, /)\n--\n\nReturn a limiter with the same "
                          "counts and options, under other limits."},
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

PyMethodDef functions[] = {{"_fork_generation", fork_generation_of_process, METH_NOARGS,
                            "_fork_generation()\n--\n\nReturn how many forks lie between this process and "
                            "the one that imported the package."},
                           {nullptr, nullptr, 0, nullptr}};

}  // namespace

bool add_limiter(PyObject* module) {
  limiter_type = reinterpret_cast<PyTypeObject*>(PyType_FromModuleAndSpec(module, &spec, nullptr));
  return limiter_type != nullptr && PyModule_AddType(module, limiter_type) == 0 && add_deciding(module) &&
         PyModule_AddFunctions(module, functions) == 0;
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
  PyErr_SetString(PyExc_RuntimeError,
                  "this Limiter was not initialised: its __init__ was never called or did not finish");
  throw PythonError{};
}

}  // namespace overlimit::python
