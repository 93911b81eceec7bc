// The values of a Decision, and a Decision of values; Python makes bytes of them.

#include "charges.hpp"
#include "hooks.hpp"

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

// (time, cost, source, status, retry_after, subjects, rows, chosen); subjects and rows are empty when nobody
// has decided.
Object values_of(DecisionObject& decision) {
  std::vector<Object> subjects;
  for (const Subject& subject : decision.subjects()) subjects.push_back(subject_values(subject));
  std::vector<Object> rows;
  for (std::size_t row = 0; row < decision.row_count; ++row) rows.push_back(row_values(decision.rows(), row));
  return required(Py_BuildValue("LOiiLOOi", static_cast<long long>(decision.time.micros()), decision.cost,
                                int(decision.source), int(decision.answer.status),
                                static_cast<long long>(decision.answer.retry_after.micros()),
                                tuple_of(subjects).get(), tuple_of(rows).get(), int(decision.chosen)));
}

[[noreturn]] void refuse(const char* what) { raise(PyExc_ValueError, "%s is out of range", what); }

long long within(long long value, long long most, const char* what) {
  if (value < 0 || value > most) refuse(what);
  return value;
}

Duration duration(long long value, const char* what) {
  return value == kNever.micros() ? kNever : Duration(within(value, kLongest, what));
}

/// The members of a tuple that has so many.
template <std::size_t count>
std::span<PyObject* const, count> members(PyObject* tuple) {
  if (!PyTuple_Check(tuple)) refuse_type("a tuple", tuple);
  if (PyTuple_GET_SIZE(tuple) != Py_ssize_t{count}) refuse("the number of values");
  return members_of(tuple).first<count>();
}

std::int64_t number(PyObject* value) { return From<std::int64_t>::get(value); }

std::vector<Object> policies_from(Tuple values) {
  std::vector<Object> policies;
  for (PyObject* const each : values.members()) {
    const auto given = members<2>(each);
    policies.push_back(new_policy(identity_from(given[0]), From<Tuple>::get(given[1]), Py_None));
  }
  return policies;
}

Subject subject_from(PyObject* values, const std::vector<Object>& policies) {
  const auto given = members<4>(values);  // the place of the policy, the identifier, the cost, the role
  IdentifierBytes().view(given[1]);
  const auto last = static_cast<long long>(policies.size()) - 1;
  return {policies[std::size_t(within(number(given[0]), last, "the policy of an identifier"))].get(),
          given[1], within(number(given[2]), kExact, "a cost"),
          Role(within(number(given[3]), kRoles - 1, "a role"))};
}

void fill_row(PyObject* values, const Rows& rows, std::size_t row) {
  const auto given = members<5>(values);
  rows.status[row] = Status(within(number(given[0]), int(Status::never), "a status"));
  rows.remaining[row] = within(number(given[1]), kLongest, "what remains");
  rows.retry_after[row] = duration(number(given[2]), "a retry_after");
  rows.reset_after[row] = duration(number(given[3]), "a reset_after");
  rows.delay[row] = Duration(within(number(given[4]), kLongest, "a delay"));
  rows.receipt[row] = {};
}

PyObject* decided(Instant time, PyObject* cost, Source source, Tuple policy_values, Tuple subject_values,
                  Tuple row_values) {
  const std::vector<Object> policies = policies_from(policy_values);
  std::vector<Subject> subjects;
  std::size_t row_count = 0;
  for (PyObject* const each : subject_values.members()) {
    subjects.push_back(subject_from(each, policies));
    row_count += compiled(subjects.back().policy).size();
  }
  within(static_cast<long long>(subjects.size()) - 1, kMaxCharges - 1, "the number of identifiers");
  if (row_values.members().size() != row_count) refuse("the number of rows");
  NewDecision decision(subjects.data(), subjects.size(), row_count);
  for (std::size_t row = 0; row < row_count; ++row) fill_row(row_values.members()[row], decision.rows(), row);
  decision.time() = time;
  PyObject* const restored = decision.finish(cost, source);
  make_final(restored);
  return restored;
}

PyObject* with_choice(PyObject* decision, std::uint8_t choice) {
  parts_of(decision).chosen = choice;
  return decision;
}

PyObject* decision_of(PyObject*, std::int64_t time, PyObject* cost, std::int64_t source, std::int64_t status,
                      std::int64_t retry_after, Tuple policies, Tuple subjects, Tuple rows,
                      std::int64_t chosen) {
  if (!PyLong_Check(cost)) refuse_type("an int", cost);
  const auto choice = std::uint8_t(within(chosen, kMaxChoices, "the choice"));
  const Instant instant(within(time, kMaxTime.micros() - 1, "the time"));
  const auto decider = Source(within(source, int(kSources) - 1, "who decided"));
  if (decider != Source::error) {
    PyObject* const restored = decided(instant, cost, decider, policies, subjects, rows);
    return with_choice(restored, choice);
  }
  NewDecision undecided;
  undecided.time() = instant;
  PyObject* const answer =
      undecided.finish({.status = Status(within(status, int(Status::over), "the status")),
                        .retry_after = duration(retry_after, "the retry_after")},
                       cost, Source::error);
  return with_choice(answer, choice);
}

PyMethodDef decision_value_functions[] = {method<decision_of>(
    "_decision_of",
    "_decision_of(time, cost, source, status, retry_after, policies, subjects, rows, "
    "chosen, /)\n--\n\nReturn the Decision that has these values, with nothing to give back; ValueError "
    "or TypeError if there is none.")};

}  // namespace

void add_decision_values(PyObject* module) { add_functions(module, decision_value_functions); }

Object bytes_of(PyObject* decision) {
  return call_hook("decision_bytes", values_of(parts_of(decision)).get());
}

}  // namespace overlimit::python
