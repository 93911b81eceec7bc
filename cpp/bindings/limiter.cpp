#include "limiter.hpp"

#include <structmember.h>

#include <algorithm>
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

namespace overlimit::python {
namespace {

constexpr std::size_t kMaxIdentifiers = 16;
constexpr std::size_t kMaxCharges = 64;
constexpr std::int64_t kMaxCells = 65'536;

/// What a limiter is bound to. Made once by __init__, then never changed.
struct Binding {
  Plan plan;
  std::shared_ptr<Store> store;
  ClockSource clock;
};

struct LimiterObject {
  PyObject_HEAD
  Binding* binding;
  PyObject* name;
  PyObject* limits;
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
    subjects_.put(size_, limiter, identifier);
    charges_.put(size_, &binding_of(limiter).plan, bytes_.view(identifier), cost, Role::enforce);
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
    raise_value_error("a call covers at most 65,536 blocks over all its identifiers and limits: "
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
  ~GilReleased() { PyEval_RestoreThread(state_); }
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

PyObject* decide(const Collected& collected, Mode mode, PyObject* cost) {
  const std::span<const Charge> charges = collected.charges();
  check_cells(charges);
  const Binding& binding = binding_of(collected.subjects()[0].limiter);
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
      PyErr_Format(PyExc_TypeError, "unexpected keyword argument %R; there is only cost",
                   PyTuple_GET_ITEM(names, i));
      throw PythonError{};
    }
    cost = values[i];
  }
  return cost;
}

PyObject* ask(PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* names, Mode mode) {
  return guarded(static_cast<PyObject*>(nullptr), [&] {
    if (count == 0) raise_value_error("name at least one identifier");
    PyObject* const cost = parse_cost(arguments + count, names);
    const Cost units = cost == one ? 1 : cost_of(cost);
    Collected collected;
    for (Py_ssize_t i = 0; i < count; ++i) {
      collected.add(self, arguments[i], units);
      if (collected.repeats()) collected.drop_newest();
      if (collected.size() > kMaxIdentifiers) raise_value_error("a call names at most 16 identifiers");
    }
    return decide(collected, mode, cost);
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
      binding.store->reset(binding.plan, identifiers, interrupted);
    });
    return Py_NewRef(Py_None);
  });
}

void check_limiter(PyObject* object) {
  if (PyObject_TypeCheck(object, limiter_type)) return;
  PyErr_Format(PyExc_TypeError, "a charge begins with a Limiter, not %.100s", Py_TYPE(object)->tp_name);
  throw PythonError{};
}

void check_same_store(PyObject* first, PyObject* other) {
  if (binding_of(first).store != binding_of(other).store) {
    raise_value_error("hit_all decides in one store: these limiters are on different ones");
  }
  if (binding_of(first).clock.object() != binding_of(other).clock.object()) {
    raise_value_error("hit_all decides at one instant: these limiters have different clocks");
  }
}

// One (limiter, identifier, cost) tuple; adds its cost to the sum.
void collect_charge(Collected& collected, PyObject* charge, Object& sum) {
  PyObject* limiter = nullptr;
  PyObject* identifier = nullptr;
  PyObject* cost = one;
  if (!PyTuple_Check(charge)) {
    PyErr_SetString(PyExc_TypeError, "a charge is a tuple (limiter, identifier, cost)");
    throw PythonError{};
  }
  if (PyArg_ParseTuple(charge, "OO|O;a charge is a tuple (limiter, identifier, cost)", &limiter, &identifier,
                       &cost) == 0) {
    throw PythonError{};
  }
  check_limiter(limiter);
  collected.add(limiter, identifier, cost_of(cost));
  check_same_store(collected.subjects()[0].limiter, limiter);
  if (collected.repeats()) raise_value_error("the same policy and identifier occur twice");
  sum = Object::steal(checked(PyNumber_Add(sum.get(), cost)));
}

PyObject* hit_all(PyObject*, PyObject* charges) {
  return guarded(static_cast<PyObject*>(nullptr), [&] {
    const Object sequence = Object::steal(checked(PySequence_Fast(charges, "charges must be a list of tuples")));
    Collected collected;
    Object sum = Object::steal(checked(PyLong_FromLong(0)));
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(sequence.get()); ++i) {
      collect_charge(collected, PySequence_Fast_GET_ITEM(sequence.get(), i), sum);
    }
    if (collected.size() == 0) raise_value_error("name at least one charge");
    return decide(collected, Mode::consume, sum.get());
  });
}

Plan compile(const char* name, PyObject* limits) {
  std::vector<Limit> compiled;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(limits); ++i) {
    const Object core = Object::steal(checked(PyObject_GetAttrString(PyTuple_GET_ITEM(limits, i), "_core_limit")));
    compiled.push_back(limit_from(core.get()));
  }
  return Plan(name, compiled);
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
    const char* text = PyUnicode_AsUTF8(name);
    if (text == nullptr) throw PythonError{};
    auto binding = std::make_unique<Binding>(
        Binding{compile(text, limits), store_from(store), ClockSource(clock)});
    binding->store->prepare(binding->plan);
    limiter.binding = binding.release();
    limiter.name = Py_NewRef(name);
    limiter.limits = Py_NewRef(limits);
    limiter.store = Py_NewRef(store);
    return 0;
  });
}

int traverse(PyObject* self, visitproc visit, void* arg) {
  LimiterObject& limiter = of(self);
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(limiter.limits);
  Py_VISIT(limiter.store);
  if (limiter.binding != nullptr) Py_VISIT(limiter.binding->clock.object());
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
  Py_XDECREF(limiter.name);
  Py_XDECREF(limiter.limits);
  Py_XDECREF(limiter.store);
  type->tp_free(self);
  Py_DECREF(type);
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
     "hit($self, /, *identifiers, cost=1)\n--\n\nDecide whether these identifiers may spend this cost, and charge "
     "it if they may.\n\nEvery limit is checked for every identifier; if any refuses, nothing is charged. "
     "Identifiers are\nstr or bytes, 1 to 16 of them, duplicates counting once; cost is an integer >= 0.\n\n"
     "Raises ValueError or TypeError for a wrong argument and StoreError when the store cannot answer."},
    {"peek", as_c_function(peek), METH_FASTCALL | METH_KEYWORDS,
     "peek($self, /, *identifiers, cost=1)\n--\n\nWhat hit() would answer now; nothing is charged."},
    {"reset", as_c_function(reset), METH_FASTCALL,
     "reset($self, /, *identifiers)\n--\n\nForget everything of these identifiers in this policy."},
    {nullptr, nullptr, 0, nullptr}};

PyMemberDef members[] = {
    {"name", T_OBJECT_EX, offsetof(LimiterObject, name), READONLY, "The policy's name; it is part of the key."},
    {"limits", T_OBJECT_EX, offsetof(LimiterObject, limits), READONLY, "The limits, in the order given."},
    {"store", T_OBJECT_EX, offsetof(LimiterObject, store), READONLY, "The store that decides."},
    {nullptr, 0, 0, 0, nullptr}};

PyGetSetDef properties[] = {
    {"clock", get_clock, nullptr, "The clock, or None for the store's own.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyType_Slot slots[] = {
    {Py_tp_doc, const_cast<char*>("Limiter(name, limits, store, clock=None)\n--\n\nThe core of overlimit.Limiter.")},
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
     "hit_all(charges, /)\n--\n\nDecide several policies at once: charges are (limiter, identifier, cost) tuples on "
     "one store.\n\nAll or nothing, in one step and at one instant; at most 64 charges. Raises ValueError for "
     "limiters\non different stores or clocks, or for a policy and identifier that occur twice."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

const Plan& plan_of(PyObject* limiter) { return of(limiter).binding->plan; }
PyObject* limits_of(PyObject* limiter) { return of(limiter).limits; }
PyObject* name_of(PyObject* limiter) { return of(limiter).name; }

bool add_limiter(PyObject* module) {
  limiter_type = reinterpret_cast<PyTypeObject*>(PyType_FromModuleAndSpec(module, &spec, nullptr));
  one = PyLong_FromLong(1);
  cost_name = PyUnicode_InternFromString("cost");
  return limiter_type != nullptr && one != nullptr && cost_name != nullptr &&
         PyModule_AddType(module, limiter_type) == 0 && PyModule_AddFunctions(module, functions) == 0;
}

}  // namespace overlimit::python
