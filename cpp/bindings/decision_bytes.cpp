#include "decision_bytes.hpp"

#include <algorithm>
#include <map>
#include <vector>

#include "charges.hpp"
#include "object.hpp"
#include "overlimit/decision_value.hpp"
#include "policy.hpp"

namespace overlimit::python {
namespace {

Object limit_calls() { return Object::steal(checked(PyImport_ImportModule("overlimit.limits.calls"))); }

// Names and descriptions are UTF-8; identifiers may hold lone surrogates too.
std::string utf8(PyObject* text) {
  const Object encoded = Object::steal(checked(PyUnicode_AsEncodedString(text, "utf-8", "surrogatepass")));
  return {PyBytes_AS_STRING(encoded.get()), std::size_t(PyBytes_GET_SIZE(encoded.get()))};
}

Object text_from(const std::string& utf8) {
  return Object::steal(checked(PyUnicode_DecodeUTF8(utf8.data(), Py_ssize_t(utf8.size()), "surrogatepass")));
}

// Python writes a base's prefix after the sign.
WholeNumber whole_number(PyObject* number) {
  std::string digits = utf8(Object::steal(checked(PyNumber_ToBase(number, 16))).get());
  digits.erase(digits.find('x') - 1, 2);
  return {std::move(digits)};
}

Object whole_number_from(const WholeNumber& number) {
  return Object::steal(checked(PyLong_FromString(number.digits.c_str(), nullptr, 16)));
}

// Filled before Python code can see it.
Object tuple_of(std::vector<Object> members) {
  Object tuple = Object::steal(checked(PyTuple_New(Py_ssize_t(members.size()))));
  for (std::size_t i = 0; i < members.size(); ++i) {
    PyTuple_SET_ITEM(tuple.get(), Py_ssize_t(i), members[i].release());
  }
  return tuple;
}

Argument argument(PyObject* object) {
  if (PyLong_Check(object)) return whole_number(object);
  if (PyFloat_Check(object)) return PyFloat_AS_DOUBLE(object);
  if (PyUnicode_Check(object)) return utf8(object);
  if (!PyTuple_Check(object) || PyTuple_GET_SIZE(object) != 2) {
    raise_value_error("a limit's arguments are numbers and strings");
  }
  return Ratio{whole_number(PyTuple_GET_ITEM(object, 0)), whole_number(PyTuple_GET_ITEM(object, 1))};
}

Object object_from(const Argument& argument) {
  if (const auto* whole = std::get_if<WholeNumber>(&argument)) return whole_number_from(*whole);
  if (const auto* real = std::get_if<double>(&argument)) {
    return Object::steal(checked(PyFloat_FromDouble(*real)));
  }
  if (const auto* text = std::get_if<std::string>(&argument)) return text_from(*text);
  const auto& ratio = std::get<Ratio>(argument);
  return Object::steal(checked(
      PyTuple_Pack(2, whole_number_from(ratio.numerator).get(), whole_number_from(ratio.denominator).get())));
}

LimitValue limit_value(PyObject* calls, PyObject* limit) {
  const Object call = Object::steal(checked(PyObject_CallMethod(calls, "call_of", "O", limit)));
  PyObject* algorithm = nullptr;
  PyObject* positional = nullptr;
  PyObject* named = nullptr;
  if (!PyArg_ParseTuple(call.get(), "UO!O!", &algorithm, &PyTuple_Type, &positional, &PyDict_Type, &named)) {
    throw PythonError{};
  }
  LimitValue value{utf8(algorithm), {}, {}};
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(positional); ++i) {
    value.positional.push_back(argument(PyTuple_GET_ITEM(positional, i)));
  }
  PyObject* name = nullptr;
  PyObject* given = nullptr;
  for (Py_ssize_t at = 0; PyDict_Next(named, &at, &name, &given) != 0;) {
    value.named.emplace_back(utf8(name), argument(given));
  }
  return value;
}

Object limit_from(PyObject* calls, const LimitValue& value) {
  std::vector<Object> arguments;
  for (const Argument& given : value.positional) arguments.push_back(object_from(given));
  const Object positional = tuple_of(std::move(arguments));
  const Object named = Object::steal(checked(PyDict_New()));
  for (const auto& [name, given] : value.named) {
    if (PyDict_SetItem(named.get(), text_from(name).get(), object_from(given).get()) < 0) throw PythonError{};
  }
  return Object::steal(checked(PyObject_CallMethod(calls, "limit_of", "OOO", text_from(value.algorithm).get(),
                                                   positional.get(), named.get())));
}

PolicyValue policy_value(PyObject* calls, PyObject* policy) {
  PolicyValue value;
  if (name_of(policy) != Py_None) value.name = utf8(name_of(policy));
  PyObject* const limits = limits_of(policy);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(limits); ++i) {
    value.limits.push_back(limit_value(calls, PyTuple_GET_ITEM(limits, i)));
  }
  return value;
}

Object policy_from(PyObject* calls, const PolicyValue& value) {
  const Object name = value.name ? text_from(*value.name) : Object::borrow(Py_None);
  std::vector<Object> limits;
  for (const LimitValue& limit : value.limits) limits.push_back(limit_from(calls, limit));
  return new_policy(identity_from(name.get()), tuple_of(std::move(limits)).get(), Py_None);
}

/// The policies of a decision by value, each once, and the places of its subjects' among them.
class Policies {
 public:
  std::size_t place_of(PyObject* policy) {
    const auto [known, is_new] = places_.try_emplace(policy, 0);
    if (is_new) known->second = place_of(policy_value(calls_.get(), policy));
    return known->second;
  }
  std::vector<PolicyValue> take() { return std::move(values_); }

 private:
  std::size_t place_of(PolicyValue value) {
    const auto same = std::ranges::find(values_, value);
    const auto place = std::size_t(same - values_.begin());
    if (same == values_.end()) values_.push_back(std::move(value));
    return place;
  }

  Object calls_ = limit_calls();
  std::vector<PolicyValue> values_;
  std::map<PyObject*, std::size_t> places_;
};

SubjectValue subject_value(const Subject& subject, Policies& policies) {
  const bool is_text = PyUnicode_Check(subject.identifier) != 0;
  std::string identifier = is_text ? utf8(subject.identifier)
                                   : std::string(PyBytes_AS_STRING(subject.identifier),
                                                 std::size_t(PyBytes_GET_SIZE(subject.identifier)));
  return {policies.place_of(subject.policy), is_text, std::move(identifier), subject.cost, subject.role};
}

Object identifier_from(const SubjectValue& subject) {
  if (subject.is_text) return text_from(subject.identifier);
  return Object::steal(
      checked(PyBytes_FromStringAndSize(subject.identifier.data(), Py_ssize_t(subject.identifier.size()))));
}

DecidedValue decided_value(const DecisionParts& decision) {
  DecidedValue value{decision.source == Source::local, {}, {}, {}};
  Policies policies;
  for (const Subject& subject : decision.subjects) {
    value.subjects.push_back(subject_value(subject, policies));
  }
  value.policies = policies.take();
  const Rows& rows = decision.rows;
  for (std::size_t i = 0; i < rows.status.size(); ++i) {
    value.rows.push_back(
        {rows.status[i], rows.remaining[i], rows.retry_after[i], rows.reset_after[i], rows.delay[i]});
  }
  return value;
}

PyObject* decided_from(const DecidedValue& value, Micros time, PyObject* cost) {
  const Object calls = limit_calls();
  std::vector<Object> kept;
  for (const PolicyValue& policy : value.policies) kept.push_back(policy_from(calls.get(), policy));
  std::vector<Subject> subjects;
  for (const SubjectValue& subject : value.subjects) {
    kept.push_back(identifier_from(subject));
    subjects.push_back({kept[subject.policy].get(), kept.back().get(), subject.cost, subject.role});
  }
  NewDecision decision(subjects.data(), subjects.size(), value.rows.size());
  const Rows rows = decision.rows();
  for (std::size_t i = 0; i < value.rows.size(); ++i) {
    const RowValue& row = value.rows[i];
    rows.status[i] = row.status;
    rows.remaining[i] = row.remaining;
    rows.retry_after[i] = row.retry_after;
    rows.reset_after[i] = row.reset_after;
    rows.delay[i] = row.delay;
    rows.receipt[i] = {};
  }
  decision.time() = time;
  return decision.finish(cost, value.is_local ? Source::local : Source::store);
}

PyObject* undecided_from(const UndecidedValue& value, Micros time, PyObject* cost) {
  NewDecision decision;
  decision.time() = time;
  return decision.finish({.status = value.status, .retry_after = value.retry_after}, cost, Source::error);
}

}  // namespace

std::string bytes_of(const DecisionParts& decision) {
  DecisionValue value{decision.time, whole_number(decision.cost),
                      UndecidedValue{decision.answer.status, decision.answer.retry_after}};
  if (decision.source != Source::error) value.answer = decided_value(decision);
  return encode(value);
}

PyObject* decision_from(std::string_view bytes) {
  const DecisionValue value = decode_decision(bytes);
  const Object cost = whole_number_from(value.cost);
  if (const auto* decided = std::get_if<DecidedValue>(&value.answer)) {
    return decided_from(*decided, value.time, cost.get());
  }
  return undecided_from(std::get<UndecidedValue>(value.answer), value.time, cost.get());
}

}  // namespace overlimit::python
