// Part of module.cpp: the core's view of a limit.
#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "given.hpp"
#include "overlimit/limit.hpp"

namespace overlimit::python {

inline void bind_limits(pybind11::module_& module) {
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
