// Part of module.cpp: what the Redis store would send, for overlimit.redis_scripts.
#pragma once

#ifdef OVERLIMIT_LINKS_REDIS
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <string>
#include <vector>

#include "given.hpp"
#include "overlimit/redis_scripts.hpp"
#include "policy.hpp"

namespace overlimit::python {

inline redis::ScriptUse script_use_from(const std::string& name) {
  if (name == "read") return redis::ScriptUse::read;
  if (name == "refund") return redis::ScriptUse::refund;
  if (name == "lock") return redis::ScriptUse::lock;
  if (name == "decide") return redis::ScriptUse::decide;
  throw pybind11::value_error("which must be 'decide', 'read', 'refund' or 'lock', not '" + name + "'");
}

inline pybind11::tuple redis_script(const std::string& which, const pybind11::str& name,
                                    const pybind11::tuple& limits, const pybind11::object& penalty,
                                    const std::vector<std::string>& identifiers) {
  const std::vector<std::string_view> views(identifiers.begin(), identifiers.end());
  if (views.empty() || views.size() > kMaxCharges) {
    throw pybind11::value_error("identifiers must be 1 to " + std::to_string(kMaxCharges) + " strings, not " +
                                std::to_string(views.size()));
  }
  const Object kept =
      with_python_errors([&] { return new_policy(identity_from(name.ptr()), limits.ptr(), penalty.ptr()); });
  const CompiledPolicy& policy = compiled(kept.get());
  const redis::ScriptListing listing = redis::script_listing(script_use_from(which), policy, views, {});
  pybind11::list keys;
  pybind11::list arguments;
  pybind11::list order;
  for (const std::string& key : listing.keys) keys.append(pybind11::bytes(key));
  for (const std::string& argument : listing.arguments) arguments.append(pybind11::bytes(argument));
  for (const CompiledLimit& each : policy.limits()) {
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
