#include "limiter.hpp"

#include <pthread.h>
#include <structmember.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <new>
#include <span>
#include <string>

#include "clock.hpp"
#include "decision.hpp"
#include "errors.hpp"
#include "handles.hpp"
#include "identifiers.hpp"
#include "object.hpp"
#include "overlimit/room.hpp"
#include "policy.hpp"

namespace overlimit::python {
namespace {

constexpr std::size_t kMaxIdentifiers = 16;
constexpr std::int64_t kMaxCells = 65'536;

/// What a limiter is bound to. Made once by __init__, then never changed.
struct Binding {
  Object policy;
  std::shared_ptr<Store> store;
  ClockSource clock;
  unsigned forks;  ///< of this process when it was made, or last noticed
};

// How many forks lie between the first process and this one.
std::atomic<unsigned> forks{0};

struct LimiterObject {
  PyObject_HEAD Binding* binding;
  PyObject* store;
};

PyTypeObject* limiter_type = nullptr;
PyObject* one = nullptr;
PyObject* cost_name = nullptr;

LimiterObject& of(PyObject* self) { return *reinterpret_cast<LimiterObject*>(self); }

[[noreturn]] void raise_value_error(const char* message) {
  PyErr_SetString(PyExc_ValueError, message);
  throw PythonError{};
}

Binding& binding_of(PyObject* self) {
  if (of(self).binding == nullptr) {
    PyErr_SetString(PyExc_RuntimeError, "this Limiter was not initialised: its __init__ was never called");
    throw PythonError{};
  }
  return *of(self).binding;
}

/// The charges of one call, collected from Python objects.
class Collected {
 public:
  void add(PyObject* limiter, PyObject* identifier, Cost cost) {
    if (size_ == kMaxCharges) raise_value_error("a call has at most 64 charges");
    PyObject* const policy = binding_of(limiter).policy.get();
    subjects_.put(size_, policy, identifier);
    charges_.put(size_, &plan_of(policy), bytes_.view(identifier), cost, Role::enforce);
    ++size_;
  }

  /// Whether the newest charge is on the same key as an earlier one.
  [[nodiscard]] bool repeats() const {
    const Charge& newest = charges_[size_ - 1];
    return std::any_of(charges_.data(), charges_.data() + size_ - 1, [&](const Charge& earlier) {
      return earlier.identifier == newest.identifier &&
             (earlier.plan == newest.plan || earlier.plan->policy() == newest.plan->policy());
    });
  }
  void drop_newest() { --size_; }

  /// Whether the newest charge calls other limits by the name of an earlier one's.
  [[nodiscard]] bool contradicts() const {
    const Plan& newest = *charges_[size_ - 1].plan;
    return std::any_of(charges_.data(), charges_.data() + size_ - 1, [&](const Charge& earlier) {
      return earlier.plan != &newest && earlier.plan->policy() == newest.policy() &&
             earlier.plan->packed() != newest.packed();
    });
  }

  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] std::span<const Charge> charges() const { return {charges_.data(), size_}; }
  [[nodiscard]] const Subject* subjects() const { return subjects_.data(); }

 private:
  std::size_t size_ = 0;
  IdentifierBytes bytes_;
  Room<Subject, kMaxCharges> subjects_;
  Room<Charge, kMaxCharges> charges_;
};

void check_cells(std::span<const Charge> charges) {
  std::int64_t cells = 0;
  for (const Charge& charge : charges) cells += charge.plan->max_cells();
  if (cells > kMaxCells) {
    raise_value_error(
        "a call covers at most 65,536 blocks over all its identifiers and limits: "
        "use fewer identifiers, or a coarser precision");
  }
}

bool python_interrupts() {
  const PyGILState_STATE state = PyGILState_Ensure();
  const bool interrupted = PyErr_CheckSignals() != 0;
  PyGILState_Release(state);
  return interrupted;
}

/// Lets other threads run Python while this one waits.
class GilReleased {
 public:
  GilReleased() : state_(PyEval_SaveThread()) {}
  ~GilReleased() {
    try {
      PyEval_RestoreThread(state_);
    } catch (const abi::__forced_unwind&) {
      stay_forever();
    }
  }
  GilReleased(const GilReleased&) = delete;
  GilReleased& operator=(const GilReleased&) = delete;

 private:
  PyThreadState* state_;
};

template <class Action>
void with_store(Store& store, const Action& action) {
  static const Interrupted interrupted = python_interrupts;
  if (!store.waits()) {
    action(interrupted);
    return;
  }
  const GilReleased released;
  action(interrupted);
}

// Memory is not shared with the parent: worth one warning, which Python gives.
void notice_fork(Binding& binding) {
  binding.forks = forks.load(std::memory_order_relaxed);
  if (binding.store->waits()) return;
  const Object module = Object::steal(checked(PyImport_ImportModule("overlimit.limiter")));
  Object::steal(
      checked(PyObject_CallMethod(module.get(), "warn_of_fork", "O", name_of(binding.policy.get()))));
}

PyObject* decide(Binding& binding, const Collected& collected, Mode mode, PyObject* cost) {
  if (binding.forks != forks.load(std::memory_order_relaxed)) notice_fork(binding);
  const std::span<const Charge> charges = collected.charges();
  check_cells(charges);
  const Call call{charges, mode, binding.clock.read(), binding.clock.is_system()};
  NewDecision decision(collected.subjects(), collected.size(), pairs_of(charges));
  const Rows rows = decision.rows();
  const std::span<Micros> time(&decision.time(), 1);
  with_store(*binding.store, [&](const Interrupted& interrupted) {
    binding.store->decide({&call, 1}, rows, time, interrupted);
  });
  return decision.finish(fold(charges, rows), cost);
}

PyObject* parse_cost(PyObject* const* values, PyObject* names) {
  PyObject* cost = one;
  const Py_ssize_t count = names == nullptr ? 0 : PyTuple_GET_SIZE(names);
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (PyUnicode_Compare(PyTuple_GET_ITEM(names, i), cost_name) != 0) {
      PyErr_Format(PyExc_TypeError,
                   "unexpected keyword argument %R: there is only cost, identifiers have no names",
                   PyTuple_GET_ITEM(names, i));
      throw PythonError{};
    }
    cost = values[i];
  }
  return cost;
}

PyObject* ask(PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* names, Mode mode) {
  return guarded(static_cast<PyObject*>(nullptr), [&] {
    PyObject* const cost = parse_cost(arguments + count, names);
    if (count == 0) raise_value_error("name at least one identifier, as in hit('user:42')");
    const Cost units = cost == one ? 1 : cost_of(cost);
    Binding& binding = binding_of(self);
    Collected collected;
    for (Py_ssize_t i = 0; i < count; ++i) {
      collected.add(self, arguments[i], units);
      if (collected.repeats()) collected.drop_newest();
      if (collected.size() > kMaxIdentifiers) raise_value_error("a call names at most 16 identifiers");
    }
    return decide(binding, collected, mode, cost);
  });
}

PyObject* hit(PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* names) {
  return ask(self, arguments, count, names, Mode::consume);
}

PyObject* peek(PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* names) {
  return ask(self, arguments, count, names, Mode::peek);
}

PyObject* reset(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
  return guarded(static_cast<PyObject*>(nullptr), [&] {
    if (count == 0) raise_value_error("name at least one identifier");
    const Binding& binding = binding_of(self);
    IdentifierBytes bytes;
    std::vector<std::string_view> identifiers;
    for (Py_ssize_t i = 0; i < count; ++i) identifiers.push_back(bytes.view(arguments[i]));
    with_store(*binding.store, [&](const Interrupted& interrupted) {
      binding.store->reset(plan_of(binding.policy.get()), identifiers, interrupted);
    });
    return Py_NewRef(Py_None);
  });
}

void check_limiter(PyObject* object) {
  if (PyObject_TypeCheck(object, limiter_type)) return;
  PyErr_Format(PyExc_TypeError, "a charge begins with a Limiter, not %.100s", Py_TYPE(object)->tp_name);
  throw PythonError{};
}

void check_same_store(const Binding& first, const Binding& other) {
  if (first.store != other.store) {
    raise_value_error("hit_all decides in one store: these limiters are on different ones");
  }
  if (!first.clock.is_same(other.clock)) {
    raise_value_error("hit_all decides at one instant: these limiters have different clocks");
  }
}

/// A charge as hit_all is given it: (limiter, identifier[, cost]). All borrowed.
struct GivenCharge {
  PyObject* limiter = nullptr;
  PyObject* identifier = nullptr;
  PyObject* cost = one;
};

GivenCharge parse_charge(PyObject* charge) {
  GivenCharge given;
  if (!PyTuple_Check(charge)) {
    PyErr_SetString(PyExc_TypeError, "a charge is a tuple (limiter, identifier, cost)");
    throw PythonError{};
  }
  if (PyArg_ParseTuple(charge, "OO|O;a charge is a tuple (limiter, identifier, cost)", &given.limiter,
                       &given.identifier, &given.cost) == 0) {
    throw PythonError{};
  }
  check_limiter(given.limiter);
  return given;
}

PyObject* hit_all(PyObject*, PyObject* charges) {
  return guarded(static_cast<PyObject*>(nullptr), [&] {
    // A tuple of our own: it keeps limiters and identifiers alive, whatever happens to the caller's list.
    const Object given_charges = Object::steal(checked(PySequence_Tuple(charges)));
    Collected collected;
    Binding* first = nullptr;
    Object sum = Object::steal(checked(PyLong_FromLong(0)));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(given_charges.get()); ++i) {
      const GivenCharge given = parse_charge(PyTuple_GET_ITEM(given_charges.get(), i));
      if (first == nullptr) first = &binding_of(given.limiter);
      collected.add(given.limiter, given.identifier, cost_of(given.cost));
      check_same_store(*first, binding_of(given.limiter));
      if (collected.repeats()) raise_value_error("the same policy and identifier occur twice");
      if (collected.contradicts()) {
        raise_value_error("two limiters of one name have different limits: give one of them another name=");
      }
      sum = Object::steal(checked(PyNumber_Add(sum.get(), given.cost)));
    }
    if (first == nullptr) raise_value_error("name at least one charge");
    return decide(*first, collected, Mode::consume, sum.get());
  });
}

int initialise(PyObject* self, PyObject* arguments, PyObject* keywords) {
  return guarded(-1, [&] {
    static const char* names[] = {"name", "limits", "store", "clock", nullptr};
    PyObject* name = nullptr;
    PyObject* limits = nullptr;
    PyObject* store = nullptr;
    PyObject* clock = Py_None;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "UO!O|O:Limiter", const_cast<char**>(names), &name,
                                     &PyTuple_Type, &limits, &store, &clock)) {
      throw PythonError{};
    }
    LimiterObject& limiter = of(self);
    if (limiter.binding != nullptr) raise_value_error("a Limiter is initialised once");
    auto binding = std::make_unique<Binding>(
        Binding{new_policy(name, limits), store_from(store), ClockSource(clock), forks.load()});
    binding->store->prepare(plan_of(binding->policy.get()));
    limiter.binding = binding.release();
    limiter.store = Py_NewRef(store);
    return 0;
  });
}

int traverse(PyObject* self, visitproc visit, void* arg) {
  LimiterObject& limiter = of(self);
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(limiter.store);
  if (limiter.binding != nullptr) {
    Py_VISIT(limiter.binding->policy.get());
    Py_VISIT(limiter.binding->clock.object());
  }
  return 0;
}

int clear(PyObject* self) {
  LimiterObject& limiter = of(self);
  Py_CLEAR(limiter.store);
  if (limiter.binding != nullptr) limiter.binding->clock.clear();
  return 0;
}

void destroy(PyObject* self) {
  PyObject_GC_UnTrack(self);
  PyTypeObject* type = Py_TYPE(self);
  LimiterObject& limiter = of(self);
  delete limiter.binding;
  Py_XDECREF(limiter.store);
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject* get_name(PyObject* self, void*) {
  return guarded(static_cast<PyObject*>(nullptr),
                 [&] { return Py_NewRef(name_of(binding_of(self).policy.get())); });
}

PyObject* get_limits(PyObject* self, void*) {
  return guarded(static_cast<PyObject*>(nullptr),
                 [&] { return Py_NewRef(limits_of(binding_of(self).policy.get())); });
}

PyObject* get_clock(PyObject* self, void*) {
  return guarded(static_cast<PyObject*>(nullptr), [&] {
    PyObject* clock = binding_of(self).clock.object();
    return Py_NewRef(clock == nullptr ? Py_None : clock);
  });
}

template <class Function>
PyCFunction as_c_function(Function* function) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

PyMethodDef methods[] = {
    {"hit", as_c_function(hit), METH_FASTCALL | METH_KEYWORDS,
     "hit($self, /, *identifiers, cost=1)\n--\n\nDecide whether these identifiers may spend this cost, and "
     "charge "
     "it if they may.\n\nEvery limit is checked for every identifier; if any refuses, nothing is charged. "
     "Identifiers are\nstr or bytes, 1 to 16 of them, duplicates counting once; cost is an integer >= 0.\n\n"
     "Raises ValueError or TypeError for a wrong argument and StoreError when the store cannot answer."},
    {"peek", as_c_function(peek), METH_FASTCALL | METH_KEYWORDS,
     "peek($self, /, *identifiers, cost=1)\n--\n\nWhat hit() would answer now; nothing is charged."},
    {"reset", as_c_function(reset), METH_FASTCALL,
     "reset($self, /, *identifiers)\n--\n\nForget everything of these identifiers in this policy."},
    {nullptr, nullptr, 0, nullptr}};

PyMemberDef members[] = {
    {"store", T_OBJECT_EX, offsetof(LimiterObject, store), READONLY, "The store that decides."},
    {nullptr, 0, 0, 0, nullptr}};

PyGetSetDef properties[] = {{"name", get_name, nullptr, "The policy's name; it is part of the key.", nullptr},
                            {"limits", get_limits, nullptr, "The limits, in the order given.", nullptr},
                            {"clock", get_clock, nullptr, "The clock, or None for the store's own.", nullptr},
                            {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyType_Slot slots[] = {
    {Py_tp_doc,
     const_cast<char*>("Limiter(name, limits, store, clock=None)\n--\n\nThe core of overlimit.Limiter.")},
    {Py_tp_init, reinterpret_cast<void*>(initialise)},
    {Py_tp_dealloc, reinterpret_cast<void*>(destroy)},
    {Py_tp_traverse, reinterpret_cast<void*>(traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(clear)},
    {Py_tp_methods, methods},
    {Py_tp_members, members},
    {Py_tp_getset, properties},
    {0, nullptr}};

PyType_Spec spec = {"overlimit._core.Limiter", sizeof(LimiterObject), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, slots};

PyMethodDef functions[] = {
    {"hit_all", hit_all, METH_O,
     "hit_all(charges, /)\n--\n\nDecide several policies at once: charges are (limiter, identifier, cost) "
     "tuples on "
     "one store.\n\nAll or nothing, in one step and at one instant; at most 64 charges. Raises ValueError "
     "for "
     "limiters\non different stores or clocks, or for a policy and identifier that occur twice."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

bool add_limiter(PyObject* module) {
  limiter_type = reinterpret_cast<PyTypeObject*>(PyType_FromModuleAndSpec(module, &spec, nullptr));
  one = PyLong_FromLong(1);
  cost_name = PyUnicode_InternFromString("cost");
  pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1, std::memory_order_relaxed); });
  return limiter_type != nullptr && one != nullptr && cost_name != nullptr &&
         PyModule_AddType(module, limiter_type) == 0 && PyModule_AddFunctions(module, functions) == 0;
}

}  // namespace overlimit::python
