// Part of module.cpp: the lines of access logs, as columns of places that numpy takes without a copy.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <string_view>
#include <vector>

#include "overlimit/access_lines.hpp"

namespace overlimit::python {

inline pybind11::bytes column_of(const std::vector<std::int64_t>& places) {
  return {reinterpret_cast<const char*>(places.data()), places.size() * sizeof(std::int64_t)};
}

inline void bind_access_logs(pybind11::module_& module) {
  namespace py = pybind11;
  module.def(
      "access_lines",
      [](const py::bytes& log, bool combined) {
        const std::string_view text(log);
        AccessLines found;
        {
          const py::gil_scoped_release released;
          found = access_lines(text, combined);
        }
        return py::make_tuple(column_of(found.ends), column_of(found.plain), column_of(found.ip_ends),
                              column_of(found.quotes));
      },
      py::arg("log"), py::arg("combined"),
      "Where lines end, which are plain, and where their addresses end and quotes are: int64 in bytes.");
}

}  // namespace overlimit::python
