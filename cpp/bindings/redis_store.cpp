#include "overlimit/redis_store.hpp"

#include <pybind11/stl.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "counters.hpp"
#include "given.hpp"
#include "hooks.hpp"
#include "module.hpp"
#include "overlimit/redis_scripts.hpp"
#include "policy.hpp"

namespace overlimit::python {
namespace {

using Fields = pybind11::dict;

/// Reads a field, whatever its type here. TypeError, KeyError.
template <class Value>
void read(const Fields& fields, const char* name, Value& value) {
  const pybind11::object given = fields[name];
  pybind11::detail::make_caster<Value> caster;
  if (!caster.load(given, true)) throw pybind11::type_error(std::string(name) + " is of a wrong type");
  value = pybind11::detail::cast_op<Value>(std::move(caster));
}
template <class Value>
Value read(const Fields& fields, const char* name) {
  Value value{};
  read(fields, name, value);
  return value;
}

redis::TlsOptions tls_from(const Fields& fields) {
  redis::TlsOptions tls;
  read(fields, "ca_file", tls.ca_file);
  read(fields, "ca_directory", tls.ca_directory);
  read(fields, "ca_data", tls.ca_data);
  read(fields, "certificate_file", tls.certificate_file);
  read(fields, "key_file", tls.key_file);
  read(fields, "key_password", tls.key_password);
  read(fields, "verify", tls.verify);
  read(fields, "check_hostname", tls.check_hostname);
  return tls;
}

redis::Endpoint endpoint_from(const Fields& fields) {
  redis::Endpoint endpoint;
  read(fields, "host", endpoint.host);
  read(fields, "port", endpoint.port);
  read(fields, "unix_path", endpoint.unix_path);
  read(fields, "username", endpoint.username);
  read(fields, "password", endpoint.password);
  read(fields, "database", endpoint.database);
  read(fields, "client_name", endpoint.client_name);
  const auto tls = read<std::optional<Fields>>(fields, "tls");
  if (tls) endpoint.tls = tls_from(*tls);
  return endpoint;
}

HashTag hash_tag_from(const std::string& name) {
  if (name == "policy") return HashTag::policy;
  return name == "prefix" ? HashTag::prefix : HashTag::none;
}

Duration duration_in(const Fields& fields, const char* name) {
  return Duration(read<std::int64_t>(fields, name));
}

RedisStore::Options options_from(const Fields& fields) {
  RedisStore::Options options{.keys = {.hash_tag = hash_tag_from(read<std::string>(fields, "hash_tag"))},
                              .timeout = duration_in(fields, "timeout_us"),
                              .max_stale = duration_in(fields, "max_stale_us"),
                              .lease = duration_in(fields, "lease_us"),
                              .remember = duration_in(fields, "remember_us")};
  read(fields, "prefix", options.keys.prefix);
  read(fields, "hash_identifiers", options.keys.hash_identifiers);
  read(fields, "takes_hashes", options.keys.takes_hashes);
  if (const auto file = read<std::optional<std::pair<std::string, mode_t>>>(fields, "lease_in"))
    options.lease_in = {.name_or_path = file->first, .mode = file->second, .warn = warn_about_shared_memory};
  return options;
}

/// For metrics; called without the GIL, or with it.
void count_units(std::string_view policy, redis::Units what, std::uint64_t count) noexcept {
  try {
    slot_of(SlotKind::policy, policy).add_anywhere(place_of("granted") + std::size_t(what), count);
  } catch (const std::bad_alloc&) {
  }
}

redis::ScriptUse script_use_from(const std::string& name) {
  using redis::ScriptUse;
  static constexpr std::array<std::pair<std::string_view, ScriptUse>, 6> kUses{
      {{"read", ScriptUse::read},
       {"refund", ScriptUse::refund},
       {"lock", ScriptUse::lock},
       {"lease", ScriptUse::lease},
       {"restore", ScriptUse::restore},
       {"decide", ScriptUse::decide}}};
  for (const auto& [known, use] : kUses) {
    if (name == known) return use;
  }
  throw pybind11::value_error(
      "which must be 'decide', 'read', 'refund', 'lock', 'lease' or 'restore', not '" + name + "'");
}

pybind11::tuple redis_script(const std::string& which, const pybind11::str& name,
                             const pybind11::tuple& limits, const pybind11::object& penalty,
                             const std::vector<std::string>& identifiers) {
  const std::vector<std::string_view> views(identifiers.begin(), identifiers.end());
  if (views.empty() || views.size() > kMaxCharges) {
    throw pybind11::value_error("identifiers must be 1 to " + std::to_string(kMaxCharges) + " strings, not " +
                                std::to_string(views.size()));
  }
  const Object kept = with_python_errors(
      [&] { return new_policy(identity_from(name.ptr()), {limits.ptr()}, penalty.ptr()); });
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

}  // namespace

redis::Location location_from(const Fields& fields) {
  const auto layout = read<std::string>(fields, "layout");
  redis::Endpoint server = endpoint_from(read<Fields>(fields, "server"));
  std::vector<redis::HostPort> hosts;
  for (auto& [host, port] : read<std::vector<std::pair<std::string, std::uint16_t>>>(fields, "hosts"))
    hosts.push_back({std::move(host), port});
  if (layout == "sentinel")
    return redis::SentinelLocation{std::move(hosts), read<std::string>(fields, "service"), std::move(server),
                                   endpoint_from(read<Fields>(fields, "sentinel"))};
  if (layout == "cluster") return redis::ClusterLocation{std::move(hosts), std::move(server)};
  return server;
}

void bind_redis_store(pybind11::module_& module) {
  namespace py = pybind11;
  redis::count_units = count_units;
  py::class_<RedisStore, Store, std::shared_ptr<RedisStore>>(module, "RedisStore",
                                                             "The core of overlimit.RedisStore.")
      .def(py::init([](const Fields& location, const Fields& fields) {
             return std::make_shared<RedisStore>(location_from(location), options_from(fields));
           }),
           py::arg("location"), py::arg("options"), py::pos_only());
  module.def("redis_script", &redis_script, py::arg("which"), py::arg("name"), py::arg("limits"),
             py::arg("penalty"), py::arg("identifiers"),
             "Return the script that the Redis store would send: its SHA1, text, keys and arguments; and the "
             "order of\n"
             "the limits in them, each as its place in the list and how many numbers it has.");
}

}  // namespace overlimit::python
