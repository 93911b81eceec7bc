// Part of module.cpp: what the Redis store would send, for overlimit.redis_scripts.
#pragma once

#ifdef OVERLIMIT_LINKS_REDIS
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "given.hpp"
#include "overlimit/redis_scripts.hpp"

namespace overlimit::python {

inline redis::ScriptUse script_use_from(const std::string& name) {
  if (name == "read") return redis::ScriptUse::read;
  if (name == "refund") return redis::ScriptUse::refund;
  if (name == "lock") return redis::ScriptUse::lock;
  if (name == "decide") return redis::ScriptUse::decide;
  throw pybind11::value_error("which must be 'decide', 'read', 'refund' or 'lock', not '" + name + "'");
}

/// Penalty._numbers: the levels, extend, forget_after.
using PenaltyNumbers = std::tuple<std::vector<Micros>, bool, std::optional<Micros>>;

inline pybind11::tuple redis_script(const std::string& which, std::string name,
                                    const std::vector<std::shared_ptr<Limit>>& limits,
                                    const std::optional<PenaltyNumbers>& penalty,
                                    const std::vector<std::string>& identifiers) {
  std::vector<Limit> known;
  for (const std::shared_ptr<Limit>& limit : limits) known.push_back(given(limit));
  std::optional<Penalty> locks;
  if (penalty) locks = Penalty{std::get<0>(*penalty), std::get<1>(*penalty), std::get<2>(*penalty)};
  const std::vector<std::string_view> views(identifiers.begin(), identifiers.end());
  if (views.empty() || views.size() > kMaxCharges) {
    throw pybind11::value_error("identifiers must be 1 to " + std::to_string(kMaxCharges) + " strings, not " +
                                std::to_string(views.size()));
  }
  const CompiledPolicy compiled(std::move(name), known, std::move(locks));
  const redis::ScriptListing listing = redis::script_listing(script_use_from(which), compiled, views, {});
  pybind11::list keys;
  pybind11::list arguments;
  pybind11::list order;
  for (const std::string& key : listing.keys) keys.append(pybind11::bytes(key));
  for (const std::string& argument : listing.arguments) arguments.append(pybind11::bytes(argument));
  for (const CompiledLimit& each : compiled.limits()) {
    order.append(pybind11::make_tuple(each.place, each.limit.packed().size()));
  }
  return pybind11::make_tuple(listing.sha1, listing.text, keys, arguments, order);
}

inline void bind_redis_scripts(pybind11::module_& module) {
  namespace py = pybind11;
  module.def("redis_script", &redis_script, py::arg("which"), py::arg("name"), py::arg("limits"),
             py::arg("penalty"), py::arg("identifiers"),
             "Return the script that the Redis store would send: its SHA1, text, keys and arguments; and the "
             "order of\n"
             "the limits in them, each as its place in the list and how many numbers it has.");
}

}  // namespace overlimit::python
#endif
