// The core's view of a limit, and calendars, whose periods Python works out.
#include <pybind11/stl.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "given.hpp"
#include "module.hpp"
#include "overlimit/calendar.hpp"
#include "overlimit/limit.hpp"
#include "waits.hpp"

namespace overlimit::python {
namespace {

Bounds bounds_by_python(PyObject* periods, Instant instant) {
  const Object answer =
      required(PyObject_CallFunction(periods, "L", static_cast<long long>(instant.micros())));
  long long start = 0;
  long long middle = 0;
  long long end = 0;
  if (!PyArg_ParseTuple(answer.get(), "LLL", &start, &middle, &end)) throw PythonError{};
  const Bounds bounds{Instant(start), Instant(middle), Instant(end)};
  if (!are_around(bounds, instant)) {
    raise(PyExc_ValueError, "a calendar's periods around %lld cannot be %R",
          static_cast<long long>(instant.micros()), answer.get());
  }
  return bounds;
}

/// Asks Python. What it raises stays set in this thread, and PythonError is thrown.
Bounds bounds_from(PyObject* periods, Instant instant) {
  std::optional<Bounds> bounds;
  in_python([&] { bounds = bounds_by_python(periods, instant); });
  return *bounds;
}

}  // namespace

void bind_calendar(pybind11::module_& module) {
  namespace py = pybind11;
  py::class_<Calendar, std::shared_ptr<Calendar>>(
      module, "Calendar", "Natural periods: an identity, and a function that knows those around an instant.")
      .def(py::init([](std::string identity, const py::function& periods) {
             auto source = std::make_shared<Object>(Object::borrow(periods.ptr()));
             return std::make_shared<Calendar>(Calendar{std::move(identity), [source](Instant instant) {
                                                          return bounds_from(source->get(), instant);
                                                        }});
           }),
           py::arg("identity"), py::arg("periods"))
      .def_property_readonly(
          "identity", [](const std::shared_ptr<Calendar>& calendar) { return given(calendar).identity; },
          "Tells its records from those of other calendars.");
}

void bind_limits(pybind11::module_& module) {
  namespace py = pybind11;
  py::class_<Limit, std::shared_ptr<Limit>>(module, "Limit",
                                            "A limit as the core sees it; the limit classes hold one.")
      .def(py::init([](const std::string& algorithm, const std::vector<std::int64_t>& numbers,
                       std::optional<std::string> name, std::shared_ptr<Calendar> calendar) {
             return Limit(algorithm, numbers, std::move(name), std::move(calendar));
           }),
           py::arg("algorithm"), py::arg("numbers"), py::arg("name") = py::none(),
           py::arg("calendar") = py::none())
      .def_property_readonly(
          "tag", [](const std::shared_ptr<Limit>& limit) { return given(limit).tag(); },
          "Tells the limit's records from those of others.");
  module.def(
      "default_precision_us",
      [](std::int64_t period_us) { return SlidingWindow::default_precision(Duration(period_us)).micros(); },
      py::arg("period_us"), "Return the precision of a sliding window that is given none.");
  module.def(
      "is_key_name",
      [](const py::str& name) {
        return PyUnicode_IS_ASCII(name.ptr()) && is_key_name(name.cast<std::string>());
      },
      py::arg("name"), "Return whether a name is KEY_NAME_RULE.");
  module.attr("KEY_NAME_RULE") = kKeyNameRule;
}

}  // namespace overlimit::python
