// The values of a Decision, and a Decision of values; Python makes bytes of them.

#include "charges.hpp"
#include "decision.hpp"
#include "errors.hpp"
#include "hooks.hpp"
#include "policy.hpp"

namespace overlimit::python {
namespace {

// Far above every duration that a store computes, so that two of them can be added.
constexpr long long kLongest = 1LL << 60;

// What a str of a class of one's own holds, whatever that class does.
Object subject_values(const Subject& subject) {
  IdentifierBytes kept;
  const std::string_view bytes = kept.view(subject.identifier);
  return required(Py_BuildValue("OOiNLi", name_of(subject.policy), limits_of(subject.policy),
                                PyUnicode_Check(subject.identifier),
                                PyBytes_FromStringAndSize(bytes.data(), Py_ssize_t(bytes.size())),
                                static_cast<long long>(subject.cost), int(subject.role)));
}

Object row_values(const Rows& rows, std::size_t row) {
  return required(Py_BuildValue("iLLLL", int(rows.status[row]), static_cast<long long>(rows.remaining[row]),
                                static_cast<long long>(rows.retry_after[row].micros()),
                                static_cast<long long>(rows.reset_after[row].micros()),
                                static_cast<long long>(rows.delay[row].micros())));
}

// (time, cost, source, status, retry_after, subjects, rows); the last two are empty when nobody has decided.
Object values_of(const DecisionParts& decision) {
  std::vector<Object> subjects;
  for (const Subject& subject : decision.subjects) subjects.push_back(subject_values(subject));
  std::vector<Object> rows;
  for (std::size_t row = 0; row < decision.rows.count; ++row) {
    rows.push_back(row_values(decision.rows, row));
  }
  return required(Py_BuildValue("LOiiLOO", static_cast<long long>(decision.time.micros()), decision.cost,
                                int(decision.source), int(decision.answer.status),
                                static_cast<long long>(decision.answer.retry_after.micros()),
                                tuple_of(subjects).get(), tuple_of(rows).get()));
}

[[noreturn]] void refuse(const char* what) {
  PyErr_Format(PyExc_ValueError, "%s is out of range", what);
  throw PythonError{};
}

long long within(long long value, long long most, const char* what) {
  if (value < 0 || value > most) refuse(what);
  return value;
}

Duration duration(long long value, const char* what) {
  return value == kNever.micros() ? kNever : Duration(within(value, kLongest, what));
}

template <class... Places>
void unpack(PyObject* tuple, const char* format, Places*... places) {
  if (!PyTuple_Check(tuple)) raise_type_error("the values of a Decision are tuples");
  if (!PyArg_ParseTuple(tuple, format, places...)) throw PythonError{};
}

std::vector<Object> policies_from(PyObject* values) {
  std::vector<Object> policies;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(values); ++i) {
    PyObject* name = nullptr;
    PyObject* limits = nullptr;
    unpack(PyTuple_GET_ITEM(values, i), "OO!", &name, &PyTuple_Type, &limits);
    policies.push_back(new_policy(identity_from(name), limits, Py_None));
  }
  return policies;
}

Subject subject_from(PyObject* values, const std::vector<Object>& policies) {
  long long policy = 0;
  PyObject* identifier = nullptr;
  long long cost = 0;
  long long role = 0;
  unpack(values, "LOLL", &policy, &identifier, &cost, &role);
  IdentifierBytes().view(identifier);
  const auto last = static_cast<long long>(policies.size()) - 1;
  return {policies[std::size_t(within(policy, last, "the policy of an identifier"))].get(), identifier,
          within(cost, kExact, "a cost"), Role(within(role, kRoles - 1, "a role"))};
}

void fill_row(PyObject* values, const Rows& rows, std::size_t row) {
  long long status = 0;
  long long remaining = 0;
  long long retry_after = 0;
  long long reset_after = 0;
  long long delay = 0;
  unpack(values, "LLLLL", &status, &remaining, &retry_after, &reset_after, &delay);
  rows.status[row] = Status(within(status, int(Status::never), "a status"));
  rows.remaining[row] = within(remaining, kLongest, "what remains");
  rows.retry_after[row] = duration(retry_after, "a retry_after");
  rows.reset_after[row] = duration(reset_after, "a reset_after");
  rows.delay[row] = Duration(within(delay, kLongest, "a delay"));
  rows.receipt[row] = {};
}

PyObject* decided(Instant time, PyObject* cost, Source source, PyObject* policy_values,
                  PyObject* subject_values, PyObject* row_values) {
  const std::vector<Object> policies = policies_from(policy_values);
  std::vector<Subject> subjects;
  std::size_t row_count = 0;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(subject_values); ++i) {
    subjects.push_back(subject_from(PyTuple_GET_ITEM(subject_values, i), policies));
    row_count += compiled(subjects.back().policy).size();
  }
  within(static_cast<long long>(subjects.size()) - 1, kMaxCharges - 1, "the number of identifiers");
  if (std::size_t(PyTuple_GET_SIZE(row_values)) != row_count) refuse("the number of rows");
  NewDecision decision(subjects.data(), subjects.size(), row_count);
  for (std::size_t row = 0; row < row_count; ++row) {
    fill_row(PyTuple_GET_ITEM(row_values, Py_ssize_t(row)), decision.rows(), row);
  }
  decision.time() = time;
  PyObject* const restored = decision.finish(cost, source);
  make_final(restored);
  return restored;
}

PyObject* undecided(Instant time, PyObject* cost, Status status, Duration retry_after) {
  NewDecision decision;
  decision.time() = time;
  return decision.finish({.status = status, .retry_after = retry_after}, cost, Source::error);
}

PyObject* decision_of(PyObject*, PyObject* values) {
  return guarded(static_cast<PyObject*>(nullptr), [&] {
    long long time = 0;
    PyObject* cost = nullptr;
    long long source = 0;
    long long status = 0;
    long long retry_after = 0;
    PyObject* policies = nullptr;
    PyObject* subjects = nullptr;
    PyObject* rows = nullptr;
    unpack(values, "LO!LLLO!O!O!", &time, &PyLong_Type, &cost, &source, &status, &retry_after, &PyTuple_Type,
           &policies, &PyTuple_Type, &subjects, &PyTuple_Type, &rows);
    const Instant instant(within(time, kMaxTime.micros() - 1, "the time"));
    const auto decider = Source(within(source, int(kSources) - 1, "who decided"));
    if (decider != Source::error) return decided(instant, cost, decider, policies, subjects, rows);
    return undecided(instant, cost, Status(within(status, int(Status::over), "the status")),
                     duration(retry_after, "the retry_after"));
  });
}

PyMethodDef functions[] = {{"_decision_of", decision_of, METH_O,
                            "_decision_of(values, /)\n--\n\nReturn the Decision that has these values, with "
                            "nothing to give back; ValueError or TypeError if there is none."},
                           {nullptr, nullptr, 0, nullptr}};

}  // namespace

bool add_decision_values(PyObject* module) { return PyModule_AddFunctions(module, functions) == 0; }

Object bytes_of(PyObject* decision) {
  return call_hook("decision_bytes", values_of(parts_of(decision)).get());
}

}  // namespace overlimit::python
