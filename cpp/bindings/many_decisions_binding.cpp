// The decisions of Limiter.hit_many.
#include <pybind11/stl.h>

#include <array>
#include <limits>
#include <memory>
#include <optional>
#include <string>

#include "given.hpp"
#include "many_decisions.hpp"
#include "module.hpp"

namespace overlimit::python {
namespace {

/// Writes a column: a number of each row's answer.
template <class Number, class Of>
void fill(const ManyDecisions& many, const pybind11::buffer_info& buffer, const Of& of) {
  const std::span<Number> column = rows_of<Number>(buffer, "column");
  if (column.size() != many.size()) throw pybind11::value_error("column must have a row per decision");
  for (std::size_t row = 0; row < column.size(); ++row)
    column[row] = static_cast<Number>(of(many.answer(row)));
}

/// "ok", "over", "locked", "never"; "unknown" where the store has not decided.
constexpr std::size_t kStatuses = 5;
std::size_t status_of(const ManyDecisions::Answer& answer) {
  const bool is_known = answer.source != Source::local && answer.source != Source::error &&
                        answer.source != ManyDecisions::kNobody;
  return is_known ? static_cast<std::size_t>(answer.decision.status) : kStatuses - 1;
}

/// NaN without any answer.
double retry_after_of(const ManyDecisions::Answer& answer) {
  if (answer.source == ManyDecisions::kNobody) return std::numeric_limits<double>::quiet_NaN();
  return answer.decision.retry_after.seconds();
}

void fill_column(ManyDecisions& many, const std::string& name, const pybind11::buffer& column) {
  using Answer = ManyDecisions::Answer;
  const pybind11::buffer_info buffer = column.request(true);
  if (name == "allowed") {
    fill<std::uint8_t>(many, buffer,
                       [](const Answer& answer) { return answer.decision.status == Status::ok; });
  } else if (name == "status") {
    fill<std::uint8_t>(many, buffer, status_of);
  } else if (name == "remaining") {
    fill<std::int64_t>(many, buffer, [](const Answer& answer) { return answer.decision.remaining; });
  } else if (name == "retry_after") {
    fill<double>(many, buffer, retry_after_of);
  } else if (name == "reset_after") {
    fill<double>(many, buffer, [](const Answer& answer) { return answer.decision.reset_after.seconds(); });
  } else if (name == "delay") {
    fill<double>(many, buffer, [](const Answer& answer) { return answer.decision.delay.seconds(); });
  } else if (name == "limit") {
    fill<std::int16_t>(many, buffer, [](const Answer& answer) { return answer.limit; });
  } else if (name == "identifier") {
    fill<std::int16_t>(many, buffer, [](const Answer& answer) { return answer.identifier; });
  } else {
    throw pybind11::value_error("there is no column " + name);
  }
}

/// ValueError unless it is above 0.
std::optional<Duration> timeout_from(PyObject* seconds) {
  if (seconds == Py_None) return std::nullopt;
  const Duration timeout = duration_from(seconds, "timeout");
  if (timeout <= Duration{}) raise_value_error("timeout must be above 0 seconds");
  return timeout;
}

std::shared_ptr<ManyDecisions> many_of(const pybind11::object& limiter, const pybind11::object& identifiers,
                                       const pybind11::object& cost, bool is_peek,
                                       const pybind11::object& timeout) {
  return with_python_errors([&] {
    return std::make_shared<ManyDecisions>(limiter.ptr(), identifiers.ptr(), cost.ptr(),
                                           is_peek ? Mode::peek : Mode::consume, timeout_from(timeout.ptr()));
  });
}

Object next_step(ManyDecisions& many) {
  std::unique_ptr<StoreTask> step = many.next_step();
  return step == nullptr ? Object::borrow(Py_None) : pending(std::move(step));
}

std::array<std::size_t, kStatuses> counts(ManyDecisions& many) {
  std::array<std::size_t, kStatuses> counts{};
  for (std::size_t row = 0; row < many.size(); ++row) ++counts[status_of(many.answer(row))];
  return counts;
}

Object decision(ManyDecisions& many, std::size_t row) {
  if (row >= many.size()) throw pybind11::index_error("there is no such row");
  return many.decision(row);
}

}  // namespace

void bind_many_decisions(pybind11::module_& module) {
  namespace py = pybind11;
  py::class_<ManyDecisions, std::shared_ptr<ManyDecisions>>(
      module, "ManyDecisions", "The decisions on many calls of one limiter, each by itself.")
      .def(py::init(&many_of), py::arg("limiter"), py::arg("identifiers"), py::arg("cost"),
           py::arg("is_peek"), py::arg("timeout") = py::none())
      .def("decide", bound(&ManyDecisions::decide), "Decide all rows.")
      .def("_next_step", bound(next_step),
           "Prepare the decisions on the next thousand rows, to be awaited; None: there are none.")
      .def("__len__", bound(&ManyDecisions::size))
      .def("counts", bound(counts), "How many calls ended with each status.")
      .def("decision", bound(decision), py::arg("row"),
           "Return a new Decision on a row; keep it, or it could be refunded twice.")
      .def("fill", bound(fill_column), py::arg("name"), py::arg("column"),
           "Write a number of each row's answer to a column.");
}

}  // namespace overlimit::python
