// The only place in C++ that knows of HTTP, for speed: no Python object for each charge and each row.
#include <algorithm>
#include <charconv>

#include "deciding.hpp"
#include "module.hpp"
#include "operations.hpp"

namespace overlimit::python {
namespace {

Role role_from(PyObject* number) {
  const long role = PyLong_AsLong(number);
  if (role == -1 && PyErr_Occurred() != nullptr) throw PythonError{};
  if (role < 0 || role > long(Role::on_refusal)) raise_value_error("a role is 0, 1 or 2");
  return Role(role);
}

/// The identifiers that functions have returned in a request. Each function is called once.
struct IdentifierCache {
  PyObject* known;
  PyObject* read;
  PyObject* arguments;

  /// The tuple of identifiers that `identify` returns.
  [[nodiscard]] Object of(PyObject* identify) const {
    if (Object identifiers = item_of(known, identify)) return identifiers;
    const Object found = result_of(identify);
    Object identifiers = identifiers_in(found.get());
    if (!PyTuple_Check(identifiers.get())) raise_value_error("identifiers are read into a tuple");
    if (std::size_t(PyTuple_GET_SIZE(identifiers.get())) > kMaxIdentifiers) {
      checked(PyObject_CallMethod(known, "refuse_many", "OO", identify, identifiers.get()));  // which raises
    }
    if (PyDict_SetItem(known, identify, identifiers.get()) < 0) throw PythonError{};
    return identifiers;
  }

  /// What a function of the app returns for the request, unless that would have to be awaited.
  [[nodiscard]] Object result_of(PyObject* function) const {
    Object returned = required(PyObject_CallObject(function, arguments));
    const PyAsyncMethods* const methods = Py_TYPE(returned.get())->tp_as_async;
    if (methods != nullptr && methods->am_await != nullptr) {
      checked(PyObject_CallMethod(known, "refuse_awaitable", "OO", function, returned.get()));
    }
    return returned;
  }

  /// The cost that a function of the app returns for the request; errors about it name the function.
  [[nodiscard]] Object cost_of(PyObject* function) const {
    Object returned = result_of(function);
    if (!is_small_cost(returned.get())) {
      (void)required(PyObject_CallMethod(known, "check_cost", "OO", function, returned.get()));
    }
    return returned;
  }

 private:
  static bool is_small_cost(PyObject* returned) {
    int overflow = 0;
    return PyLong_CheckExact(returned) && PyLong_AsLongAndOverflow(returned, &overflow) >= 0 && overflow == 0;
  }

  [[nodiscard]] Object identifiers_in(PyObject* found) const {
    if (is_text(found)) return required(PyTuple_Pack(1, found));
    if (PyList_CheckExact(found) || PyTuple_CheckExact(found)) {
      // Of our own before it is looked at: the app may change a list meanwhile.
      Object members = required(PySequence_Tuple(found));
      if (are_plain(members.get())) return members;
    }
    return required(PyObject_CallOneArg(read, found));
  }

  static bool is_text(PyObject* found) {
    return PyUnicode_CheckExact(found) && PyUnicode_GET_LENGTH(found) > 0;
  }

  /// Whether no conversion is needed, as for a tuple of different strings.
  static bool are_plain(PyObject* tuple) {
    const Arguments members = members_of(tuple);
    for (auto member = members.begin(); member != members.end(); ++member) {
      if (!is_text(*member)) return false;
      const auto is_same = [&](PyObject* other) { return PyUnicode_Compare(*member, other) == 0; };
      if (std::any_of(members.begin(), member, is_same)) return false;
    }
    return !members.empty() && members.size() <= kMaxIdentifiers;
  }
};

/// Adds a resolved rule (limiter, identify, cost, role): a charge for each identifier that `identify`
/// returns. The cost may be a function that returns it.
void add_rule(ChargesOfLimiters& collected, PyObject* rule, const IdentifierCache& identifiers) {
  if (!PyTuple_Check(rule) || PyTuple_GET_SIZE(rule) != 4) {
    raise_value_error("a rule is a tuple (limiter, identify, cost, role)");
  }
  collected.kept.push_back(identifiers.of(PyTuple_GET_ITEM(rule, 1)));
  PyObject* const named = collected.kept.back().get();
  PyObject* const cost = PyTuple_GET_ITEM(rule, 2);
  const Object units = PyCallable_Check(cost) != 0 ? identifiers.cost_of(cost) : Object::borrow(cost);
  const Role role = role_from(PyTuple_GET_ITEM(rule, 3));
  for (PyObject* const identifier : members_of(named))
    collected.add({PyTuple_GET_ITEM(rule, 0), identifier, units.get(), role});
}

constexpr std::int64_t kLargestInteger = 999'999'999'999'999;
constexpr Duration kSecond{1'000'000};
constexpr std::size_t kUsualSize = 256;

/// What one limit answered for all identifiers.
struct State {
  std::int64_t remaining = INT64_MAX;
  Duration reset_after{};
  Duration retry_after{-1};  // below 0: it refused nobody

  void add(const Rows& rows, std::size_t row) {
    const std::int64_t left = rows.remaining[row];
    if (rows.status[row] != Status::ok) retry_after = std::max(retry_after, rows.retry_after[row]);
    if (left < remaining) reset_after = {};
    if (left <= remaining) reset_after = std::max(reset_after, rows.reset_after[row]);
    remaining = std::min(remaining, left);
  }
};

void append_number(std::string& text, std::int64_t number) {
  char digits[20];
  text.append(digits, std::to_chars(digits, digits + sizeof digits, std::min(number, kLargestInteger)).ptr);
}

void append(std::string& text, const State& state) {
  append_number(text, state.remaining);
  const Duration wait = state.retry_after < Duration{} ? state.reset_after : state.retry_after;
  if (wait == kNever) return;
  text += ";t=";
  append_number(text, ceil_div(wait.micros(), kSecond.micros()));
}

/// The charges of one policy, which stand next to each other.
struct Group {
  std::size_t first_row;
  std::size_t charges;
  const CompiledPolicy& policy;

  [[nodiscard]] State state(const Rows& rows, std::size_t canonical) const {
    State state;
    for (std::size_t charge = 0; charge < charges; ++charge) {
      state.add(rows, first_row + charge * policy.size() + canonical);
    }
    return state;
  }
};

void append_group(std::string& text, const Group& group, const Rows& rows, PyObject* keys) {
  const auto& limits = group.policy.limits();
  if (!PyTuple_Check(keys) || PyTuple_GET_SIZE(keys) != Py_ssize_t(limits.size())) {
    raise_value_error("name one key per limit of a policy, or None");
  }
  for (std::size_t place = 0; place < limits.size(); ++place) {
    const auto limit = std::ranges::find(limits, place, &CompiledLimit::place);
    if (!text.empty()) text += ", ";
    text += text_in(PyTuple_GET_ITEM(keys, Py_ssize_t(place)));
    append(text, group.state(rows, std::size_t(limit - limits.begin())));
  }
}

std::string field_of(DecisionObject& decision, PyObject* keys) {
  const std::span<const Subject> subjects = decision.subjects();
  std::string text;
  text.reserve(kUsualSize);
  Py_ssize_t policy = 0;
  std::size_t row = 0;
  for (std::size_t i = 0; i < subjects.size(); ++policy) {
    Group group{row, 0, compiled(subjects[i].policy)};
    PyObject* const same = subjects[i].policy;
    for (; i < subjects.size() && subjects[i].policy == same; ++i) ++group.charges;
    row += group.charges * group.policy.size();
    if (policy >= PyTuple_GET_SIZE(keys)) raise_value_error("name the keys of each policy, or None");
    PyObject* const shown = PyTuple_GET_ITEM(keys, policy);
    if (shown != Py_None) append_group(text, group, decision.rows(), shown);
  }
  return text;
}

/// For a tuple of resolved rules (limiter, identify, cost, role), a dict of known identifiers by `identify`,
/// a function that converts what another `identify` returns, and the arguments of the app's functions:
/// charges all identifiers, adds those it asked for to the dict, and raises as hit_all does.
template <class Answer>
Answer decide_request_as(const Manner& manner, Tuple rules, PyObject* known, PyObject* read,
                         Tuple arguments) {
  if (!PyDict_Check(known)) refuse_type("a dict", known);
  const IdentifierCache identifiers{.known = known, .read = read, .arguments = arguments.object};
  const auto collect = [&](ChargesOfLimiters& collected) {
    for (PyObject* const rule : rules.members()) add_rule(collected, rule, identifiers);
  };
  return decided<Answer>(collect, manner, rules.object);
}

template <class Answer>
Answer decide_request(PyObject*, Tuple rules, PyObject* known, PyObject* read, Tuple arguments) {
  return decide_request_as<Answer>({Mode::consume}, rules, known, read, arguments);
}

template <class Answer>
Answer try_request(PyObject*, Tuple rules, PyObject* known, PyObject* read, Tuple arguments,
                   PyObject* patience, std::int64_t place) {
  const Manner manner{Mode::consume, patience_from(patience), entry_from(place)};
  return decide_request_as<Answer>(manner, rules, known, read, arguments);
}

char lower(char c) { return c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c; }

/// The name of a header field, which WSGI has as str and ASGI as bytes; empty if it is none.
std::string_view name_in(PyObject* name) {
  if (PyBytes_Check(name)) return {PyBytes_AS_STRING(name), std::size_t(PyBytes_GET_SIZE(name))};
  if (!PyUnicode_Check(name) || !PyUnicode_IS_ASCII(name)) return {};
  return {static_cast<const char*>(PyUnicode_DATA(name)), std::size_t(PyUnicode_GET_LENGTH(name))};
}

bool is_field(PyObject* pair) {
  return PyTuple_Check(pair) && PyTuple_GET_SIZE(pair) == 2 && !name_in(PyTuple_GET_ITEM(pair, 0)).empty();
}

bool has_a_name_of(PyObject* field, Arguments others) {
  const Object name = required(PySequence_GetItem(field, 0));
  return std::ranges::any_of(others, [given = name_in(name.get())](PyObject* other) {
    return std::ranges::equal(given, name_in(PyTuple_GET_ITEM(other, 0)), {}, lower, lower);
  });
}

/// Appends fields to a list of them unless it has one of these names; returns whether it had none.
bool appended(PyObject* list, PyObject* fields) {
  // Of our own before it is looked at: the app may change the list meanwhile.
  const Object given = required(PySequence_Tuple(list));
  const Object added = required(PySequence_Tuple(fields));
  const Arguments own = members_of(added.get());
  if (!std::ranges::all_of(own, is_field)) raise_value_error("header fields are pairs (name, value)");
  const auto is_there = [&](PyObject* field) { return has_a_name_of(field, own); };
  if (std::ranges::any_of(members_of(given.get()), is_there)) return false;
  for (PyObject* const field : own) {
    if (PyList_Append(list, field) < 0) throw PythonError{};
  }
  return true;
}

bool add_fields(PyObject*, PyObject* headers, PyObject* fields) {
  if (!PyList_Check(headers)) refuse_type("a list", headers);
  return appended(headers, fields);
}

/// A decision and, per policy in the order of its charges, a tuple of one key per limit in the order given,
/// or None for what is not shown. Each key is followed by what its limit answered for all identifiers: the
/// smallest remaining; behind `;t=` the longest retry_after when it refused anyone, else the reset_after of
/// those with least left, in seconds rounded up, and nothing when waiting cannot help. Consecutive charges of
/// one policy belong together.
///
/// Source: draft-ietf-httpapi-ratelimit-headers; integers as in RFC 9651, section 3.3.1.
template <auto make>
PyObject* rate_field(PyObject*, Tuple keys, PyObject* decision) {
  const std::string text = field_of(parts_of(decision), keys.object);
  return make(text.data(), Py_ssize_t(text.size()));
}

Operation operations[] = {
    operation<decide_request<Object>, decide_request<Task>>(
        "_decide_request",
        "_decide_request(rules, known, read, arguments, /)\n--\n\nhit_all for rules (limiter, identify, "
        "cost, "
        "role): each charges the identifiers known[identify], or else those that read makes of "
        "identify(*arguments); a cost may be a function that says it, a role is 0 enforce, 1 shadow, 2 "
        "on_refusal."),
    operation<try_request<Object>, try_request<Task>>(
        "_try_request",
        "_try_request(rules, known, read, arguments, patience, place, /)\n--\n\n_decide_request() as "
        "_try_all() is hit_all().")};

PyMethodDef functions[] = {
    method<rate_field<PyUnicode_FromStringAndSize>>(
        "_rate_field",
        "_rate_field(keys, decision, /)\n--\n\nFormat what is left: per policy a tuple of one key per limit, "
        "each "
        "followed by its state, or None for a policy that is not shown."),
    method<rate_field<PyBytes_FromStringAndSize>>(
        "_raw_rate_field", "_raw_rate_field(keys, decision, /)\n--\n\n_rate_field() in bytes."),
    method<add_fields>(
        "_add_fields",
        "_add_fields(headers, fields, /)\n--\n\nAppend header fields to a list of them unless it "
        "has a field of one of these names; return whether it had none.")};

}  // namespace

void add_http_fast_path(PyObject* module) {
  add_functions(module, operations);
  add_functions(module, functions);
}

}  // namespace overlimit::python
