#include "policy.hpp"

#include <array>
#include <atomic>
#include <mutex>

#include "functions.hpp"
#include "module.hpp"
#include "overlimit/forks.hpp"
#include "overlimit/past_rates.hpp"

namespace overlimit::python {

/// The rates of a limiter that was updated, which a refund may ask for while another update adds some.
class SharedRates {
 public:
  explicit SharedRates(const CompiledPolicy& first) : rates_(first) {}
  std::uint64_t add(const CompiledPolicy& policy) {
    const std::lock_guard lock(mutex_);
    rates_.add(policy);
    return rates_.newest();
  }
  std::optional<CompiledPolicy> fastest_since(std::uint64_t number, const CompiledPolicy& charged) {
    const std::lock_guard lock(mutex_);
    if (number == rates_.newest()) return std::nullopt;
    return rates_.fastest_since(number, charged);
  }

 private:
  ForkSafeMutex mutex_;
  PastRates rates_;
};

/// Its place among the policies of a limiter that was updated.
struct Succession {
  std::shared_ptr<SharedRates> rates;
  std::uint64_t number;
};

namespace {

PyTypeObject* policy_type = nullptr;

PolicyObject& of(PyObject* self) { return *reinterpret_cast<PolicyObject*>(self); }

// The numbers of a Penalty: levels and memory in microseconds.
Penalty penalty_of_numbers(PyObject*, Tuple levels, PyObject* extend, PyObject* forget_after) {
  const auto duration = [](PyObject* micros) { return Duration(From<std::int64_t>::get(micros)); };
  const int extends = PyObject_IsTrue(extend);
  if (extends < 0) throw PythonError{};
  Penalty penalty{{}, extends == 1, std::nullopt};
  for (PyObject* const level : levels.members()) penalty.levels.push_back(duration(level));
  if (forget_after != Py_None) penalty.forget_after = duration(forget_after);
  return penalty;
}

std::optional<Penalty> penalty_from(PyObject* penalty) {
  if (penalty == Py_None) return std::nullopt;
  const Object numbers = required(PyObject_GetAttrString(penalty, "_numbers"));
  return call<penalty_of_numbers>(nullptr, From<Tuple>::get(numbers.get()).members());
}

// What has no label is no limit of the package.
std::string label_of(PyObject* limit) {
  const Object label = Object::steal(PyObject_GetAttrString(limit, "label"));
  if (label && PyUnicode_Check(label.get())) return std::string(text_in(label.get()));
  if (!label && PyErr_ExceptionMatches(PyExc_AttributeError) == 0) throw PythonError{};
  PyErr_Clear();
  return std::string(kOther);
}

std::unique_ptr<CompiledPolicy> compile(const PolicyIdentity& identity, Tuple limits, PyObject* penalty) {
  std::vector<Limit> compiled;
  for (PyObject* const limit : limits.members()) {
    const Object core = required(PyObject_GetAttrString(limit, "_core_limit"));
    compiled.push_back(limit_from(core.get()));
  }
  return std::make_unique<CompiledPolicy>(identity, compiled, penalty_from(penalty));
}

void destroy_policy(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  delete of(self).compiled;
  delete of(self).succession.load();
  delete[] of(self).counters.load();
  Py_XDECREF(of(self).name);
  Py_XDECREF(of(self).limits);
  Py_XDECREF(of(self).penalty);
  Py_XDECREF(of(self).local_policy);
  PyObject_Free(self);
  Py_DECREF(type);
}

PyType_Slot policy_slots[] = {{Py_tp_doc, const_cast<char*>("A name, its limits and its penalty, compiled.")},
                              {Py_tp_dealloc, reinterpret_cast<void*>(destroy_policy)},
                              {0, nullptr}};

PyType_Spec policy_spec = {"overlimit._core.Policy", sizeof(PolicyObject), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, policy_slots};

}  // namespace

void add_policies(PyObject* module) { policy_type = made_type(module, policy_spec); }

PolicyIdentity identity_from(PyObject* name) {
  if (name == Py_None) return PolicyIdentity::unnamed();
  if (!PyUnicode_Check(name)) {
    raise(PyExc_TypeError, "name must be a str or None, not %.100s", Py_TYPE(name)->tp_name);
  }
  return PolicyIdentity(std::string(text_in(name)));
}

Object new_policy(const PolicyIdentity& identity, Tuple limits, PyObject* penalty, Object local_policy) {
  std::unique_ptr<CompiledPolicy> compiled = compile(identity, limits, penalty);
  Object name = identity.has_name() ? text_of(identity.name().c_str()) : Object::borrow(Py_None);
  auto* policy = PyObject_New(PolicyObject, policy_type);
  Object object = required(reinterpret_cast<PyObject*>(policy));
  policy->compiled = compiled.release();
  policy->name = name.release();
  policy->limits = Py_NewRef(limits.object);
  policy->penalty = Py_NewRef(penalty);
  policy->local_policy = local_policy.release();
  new (&policy->succession) std::atomic<Succession*>(nullptr);
  new (&policy->counters) std::atomic<CounterSlot**>(nullptr);
  return object;
}

void succeed(PyObject* past, PyObject* next) {
  PolicyObject &before = of(past), &after = of(next);
  if (before.succession == nullptr) {
    before.succession = new Succession{std::make_shared<SharedRates>(*before.compiled), 0};
  }
  const std::shared_ptr<SharedRates>& rates = before.succession.load()->rates;
  after.succession = new Succession{rates, rates->add(*after.compiled)};
  if (before.local_policy != nullptr && after.local_policy != nullptr) {
    succeed(before.local_policy, after.local_policy);
  }
}

std::optional<CompiledPolicy> fastest_since(PyObject* policy) {
  const Succession* const succession = of(policy).succession;
  if (succession == nullptr) return std::nullopt;
  return succession->rates->fastest_since(succession->number, compiled(policy));
}

void find_counters(PyObject* policy) {
  if (of(policy).counters != nullptr) return;
  const CompiledPolicy& known = compiled(policy);
  auto made = std::make_unique<CounterSlot*[]>(known.size());
  for (std::size_t i = 0; i < known.size(); ++i) {
    const std::string label = label_of(members_of(limits_of(policy))[known.limits()[i].place]);
    made[i] = &slot_of(SlotKind::limit, shown_name(known.identity()), label);
  }
  CounterSlot** none = nullptr;  // unless another thread was faster
  if (of(policy).counters.compare_exchange_strong(none, made.get())) (void)made.release();
}

CounterSlot** counters_found_late(PyObject* policy) noexcept {
  static std::array<CounterSlot*, CompiledPolicy::kMaxLimits> lost;
  try {
    find_counters(policy);
    return of(policy).counters;
  } catch (...) {
    PyErr_Clear();  // the decision is made
    lost.fill(&lost_counters());
    return lost.data();
  }
}

PyObject* limits_of(PyObject* policy) { return of(policy).limits; }
PyObject* name_of(PyObject* policy) { return of(policy).name; }
PyObject* penalty_of(PyObject* policy) { return of(policy).penalty; }
PyObject* local_policy_of(PyObject* policy) {
  return of(policy).local_policy == nullptr ? policy : of(policy).local_policy;
}

}  // namespace overlimit::python
