#include "http_rate_field.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>

#include "collected.hpp"
#include "decision.hpp"
#include "errors.hpp"
#include "object.hpp"
#include "policy.hpp"

namespace overlimit::python {
namespace {

constexpr std::int64_t kLargestInteger = 999'999'999'999'999;
constexpr Micros kSecond = 1'000'000;
constexpr std::size_t kUsualSize = 256;

/// What one limit answered for all identifiers.
struct State {
  std::int64_t remaining = INT64_MAX;
  Micros reset_after = 0;
  Micros retry_after = -1;  // below 0: it refused nobody

  void add(const Rows& rows, std::size_t row) {
    const std::int64_t left = rows.remaining[row];
    if (rows.status[row] != Status::ok) retry_after = std::max(retry_after, rows.retry_after[row]);
    if (left < remaining) reset_after = 0;
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
  const Micros wait = state.retry_after < 0 ? state.reset_after : state.retry_after;
  if (wait == kNever) return;
  text += ";t=";
  append_number(text, wait / kSecond + (wait % kSecond > 0 ? 1 : 0));
}

std::string_view text_in(PyObject* string) {
  Py_ssize_t size = 0;
  const char* const text = PyUnicode_AsUTF8AndSize(string, &size);
  if (text == nullptr) throw PythonError{};
  return {text, static_cast<std::size_t>(size)};
}

/// The charges of one policy, which stand next to each other.
struct Group {
  std::size_t first_row;
  std::size_t charges;
  const Plan& plan;

  [[nodiscard]] State state(const Rows& rows, std::size_t canonical) const {
    State state;
    for (std::size_t charge = 0; charge < charges; ++charge) {
      state.add(rows, first_row + charge * plan.size() + canonical);
    }
    return state;
  }
};

void append_group(std::string& text, const Group& group, const Rows& rows, PyObject* keys) {
  const auto& limits = group.plan.limits();
  if (!PyTuple_Check(keys) || PyTuple_GET_SIZE(keys) != Py_ssize_t(limits.size())) {
    raise_value_error("name one key per limit of a policy, or None");
  }
  for (std::size_t place = 0; place < limits.size(); ++place) {
    const auto limit = std::ranges::find(limits, place, &PlannedLimit::place);
    if (!text.empty()) text += ", ";
    text += text_in(PyTuple_GET_ITEM(keys, Py_ssize_t(place)));
    append(text, group.state(rows, std::size_t(limit - limits.begin())));
  }
}

std::string field_of(const DecisionParts& decision, PyObject* keys) {
  const auto& subjects = decision.subjects;
  std::string text;
  text.reserve(kUsualSize);
  Py_ssize_t policy = 0;
  std::size_t row = 0;
  for (std::size_t i = 0; i < subjects.size(); ++policy) {
    Group group{row, 0, plan_of(subjects[i].policy)};
    PyObject* const same = subjects[i].policy;
    for (; i < subjects.size() && subjects[i].policy == same; ++i) ++group.charges;
    row += group.charges * group.plan.size();
    if (policy >= PyTuple_GET_SIZE(keys)) raise_value_error("name the keys of each policy, or None");
    PyObject* const shown = PyTuple_GET_ITEM(keys, policy);
    if (shown != Py_None) append_group(text, group, decision.rows, shown);
  }
  return text;
}

}  // namespace

PyObject* rate_field(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  return guarded(static_cast<PyObject*>(nullptr), [&] {
    if (count != 2 || !PyTuple_Check(arguments[0])) {
      raise_value_error("_rate_field takes a tuple of keys and a decision");
    }
    const std::string text = field_of(parts_of(arguments[1]), arguments[0]);
    return checked(PyUnicode_FromStringAndSize(text.data(), Py_ssize_t(text.size())));
  });
}

}  // namespace overlimit::python
