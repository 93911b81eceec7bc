// Part of module.cpp: calendars, whose periods Python works out.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>
#include <string>
#include <utility>

#include "given.hpp"
#include "object.hpp"
#include "overlimit/calendar.hpp"
#include "waits.hpp"

namespace overlimit::python {

/// Asks Python. What it raises stays set in this thread, and PythonError is thrown.
inline Bounds bounds_from(PyObject* periods, Instant instant) {
  const GilHeld held;
  const Object answer =
      required(PyObject_CallFunction(periods, "L", static_cast<long long>(instant.micros())));
  long long start = 0;
  long long middle = 0;
  long long end = 0;
  if (!PyArg_ParseTuple(answer.get(), "LLL", &start, &middle, &end)) throw PythonError{};
  const Bounds bounds{Instant(start), Instant(middle), Instant(end)};
  if (!are_around(bounds, instant)) {
    PyErr_Format(PyExc_ValueError, "a calendar's periods around %lld cannot be %R",
                 static_cast<long long>(instant.micros()), answer.get());
    throw PythonError{};
  }
  return bounds;
}

inline void bind_calendar(pybind11::module_& module) {
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

}  // namespace overlimit::python
