#include "overlimit/redis_store.hpp"

#include <pybind11/stl.h>

#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "bound_types.hpp"
#include "counters.hpp"
#include "given.hpp"
#include "hooks.hpp"
#include "object.hpp"
#include "overlimit/redis_scripts.hpp"
#include "policy.hpp"

namespace overlimit::python {
namespace {

void bind_tls_options(pybind11::module_& module) {
  namespace py = pybind11;
  py::class_<redis::TlsOptions, std::shared_ptr<redis::TlsOptions>>(module, "TlsOptions",
                                                                    "How overlimit.RedisStore talks TLS.")
      .def(py::init([](std::string ca_file, std::string ca_directory, std::string ca_data,
                       std::string certificate_file, std::string key_file, std::string key_password,
                       bool verify, bool check_hostname) {
             return redis::TlsOptions{std::move(ca_file),
                                      std::move(ca_directory),
                                      std::move(ca_data),
                                      std::move(certificate_file),
                                      std::move(key_file),
                                      std::move(key_password),
                                      verify,
                                      check_hostname};
           }),
           py::kw_only(), py::arg("ca_file"), py::arg("ca_directory"), py::arg("ca_data"),
           py::arg("certificate_file"), py::arg("key_file"), py::arg("key_password"), py::arg("verify"),
           py::arg("check_hostname"));
}

void bind_redis_locations(pybind11::module_& module) {
  namespace py = pybind11;
  using EndpointPointer = std::shared_ptr<redis::Endpoint>;
  using Addresses = std::vector<std::pair<std::string, std::uint16_t>>;
  static constexpr auto host_ports = [](const Addresses& addresses) {
    std::vector<redis::HostPort> converted;
    for (const auto& [host, port] : addresses) converted.push_back({host, port});
    return converted;
  };
  py::class_<redis::Endpoint, EndpointPointer>(module, "Endpoint",
                                               "A Redis server, and as whom to talk to it.")
      .def(py::init([](std::string host, std::uint16_t port, std::string unix_path, std::string username,
                       std::string password, int database, const std::shared_ptr<redis::TlsOptions>& tls) {
             redis::Endpoint endpoint{
                 std::move(host), port, std::move(unix_path), std::move(username), std::move(password),
                 database,        {}};
             if (tls != nullptr) endpoint.tls = *tls;
             return endpoint;
           }),
           py::kw_only(), py::arg("host"), py::arg("port"), py::arg("unix_path"), py::arg("username"),
           py::arg("password"), py::arg("database"), py::arg("tls").none(true));
  py::class_<redis::SentinelLocation, std::shared_ptr<redis::SentinelLocation>>(
      module, "SentinelLocation", "The master that sentinels name.")
      .def(py::init([](const Addresses& sentinels, std::string service, const EndpointPointer& server,
                       const EndpointPointer& sentinel) {
        return redis::SentinelLocation{host_ports(sentinels), std::move(service), given(server),
                                       given(sentinel)};
      }));
  py::class_<redis::ClusterLocation, std::shared_ptr<redis::ClusterLocation>>(
      module, "ClusterLocation", "A Redis Cluster, by some of its nodes.")
      .def(py::init([](const Addresses& seeds, const EndpointPointer& server) {
        return redis::ClusterLocation{host_ports(seeds), given(server)};
      }));
}

/// Where Redis lives, as Python has bound it.
using LocationPointer =
    std::variant<std::shared_ptr<redis::Endpoint>, std::shared_ptr<redis::SentinelLocation>,
                 std::shared_ptr<redis::ClusterLocation>>;

redis::Location location_from(const LocationPointer& pointer) {
  return std::visit([](const auto& each) { return redis::Location(given(each)); }, pointer);
}

HashTag hash_tag_from(const std::string& name) {
  if (name == "policy") return HashTag::policy;
  return name == "prefix" ? HashTag::prefix : HashTag::none;
}

/// For metrics; called without the GIL, or with it.
void count_units(std::string_view policy, redis::Units what, std::uint64_t count) noexcept {
  try {
    slot_of(SlotKind::policy, policy).add_anywhere(place_of("granted") + std::size_t(what), count);
  } catch (const std::bad_alloc&) {
  }
}

redis::ScriptUse script_use_from(const std::string& name) {
  if (name == "read") return redis::ScriptUse::read;
  if (name == "refund") return redis::ScriptUse::refund;
  if (name == "lock") return redis::ScriptUse::lock;
  if (name == "lease") return redis::ScriptUse::lease;
  if (name == "restore") return redis::ScriptUse::restore;
  if (name == "decide") return redis::ScriptUse::decide;
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

}  // namespace

void bind_redis_store(pybind11::module_& module) {
  namespace py = pybind11;
  bind_tls_options(module);
  bind_redis_locations(module);
  redis::count_units = count_units;
  py::class_<RedisStore, Store, std::shared_ptr<RedisStore>>(module, "RedisStore",
                                                             "The core of overlimit.RedisStore.")
      .def(py::init([](const LocationPointer& location, std::string prefix, const std::string& hash_tag,
                       bool hash_identifiers, bool takes_hashes, std::int64_t timeout_us,
                       std::int64_t max_stale_us, std::int64_t lease_us, std::int64_t remember_us,
                       const std::optional<std::pair<std::string, mode_t>>& lease_in) {
             RedisStore::Options options{
                 .keys = {std::move(prefix), hash_tag_from(hash_tag), hash_identifiers, takes_hashes},
                 .timeout = Duration(timeout_us),
                 .max_stale = Duration(max_stale_us),
                 .lease = Duration(lease_us),
                 .remember = Duration(remember_us)};
             if (lease_in) {
               const auto& [name, mode] = *lease_in;
               options.lease_in = {.name_or_path = name, .mode = mode, .warn = warn_about_shared_memory};
             }
             return std::make_shared<RedisStore>(location_from(location), std::move(options));
           }),
           py::arg("location"), py::kw_only(), py::arg("prefix"), py::arg("hash_tag"),
           py::arg("hash_identifiers"), py::arg("takes_hashes"), py::arg("timeout_us"),
           py::arg("max_stale_us"), py::arg("lease_us"), py::arg("remember_us"), py::arg("lease_in"));
  module.def("redis_script", &redis_script, py::arg("which"), py::arg("name"), py::arg("limits"),
             py::arg("penalty"), py::arg("identifiers"),
             "Return the script that the Redis store would send: its SHA1, text, keys and arguments; and the "
             "order of\n"
             "the limits in them, each as its place in the list and how many numbers it has.");
}

}  // namespace overlimit::python
