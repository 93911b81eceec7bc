// Part of module.cpp: the stores.
#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "given.hpp"
#include "hooks.hpp"
#include "object.hpp"
#include "overlimit/memory_store.hpp"
#ifdef OVERLIMIT_LINKS_REDIS
#include "overlimit/redis_store.hpp"
#endif
#include "waits.hpp"

namespace overlimit::python {

/// A size, or the nearest there is: what is out of range is for the store to refuse.
inline std::size_t size_from(const pybind11::int_& number, const char* argument, std::size_t least) {
  int overflow = 0;
  const long long size = PyLong_AsLongLongAndOverflow(number.ptr(), &overflow);
  if (overflow > 0 || size > (1LL << 48)) {
    throw pybind11::value_error(std::string(argument) + " must be at most 2**48");
  }
  if (overflow < 0 || size < 0) {
    throw pybind11::value_error(std::string(argument) + " must be at least " + std::to_string(least) +
                                ", not " + std::string(pybind11::str(number)));
  }
  return static_cast<std::size_t>(size);
}

inline void bind_memory_store(pybind11::module_& module) {
  namespace py = pybind11;
  using Pointer = std::shared_ptr<MemoryStore>;
  py::class_<MemoryStore, Store, Pointer>(
      module, "MemoryStore",
      "A store in this process's memory, of bounded size.\n\n"
      "Past max_keys keys or max_bytes bytes it never forgives: keys it does not know then share overflow\n"
      "entries that count what all of them spend. Policies that are too many for that share those of others\n"
      "with the same limits.")
      .def(py::init([](const py::int_& max_keys, const py::int_& max_bytes) {
             return std::make_shared<MemoryStore>(size_from(max_keys, "max_keys", 1),
                                                  size_from(max_bytes, "max_bytes", MemoryStore::kMinBytes));
           }),
           py::arg("max_keys") = 1'000'000, py::arg("max_bytes") = std::size_t{256} << 20)
      .def("__len__", [](const Pointer& store) { return given(store).size(); })
      .def("__repr__",
           [](const Pointer& store) {
             return "MemoryStore(max_keys=" + std::to_string(given(store).max_keys()) +
                    ", max_bytes=" + std::to_string(given(store).max_bytes()) + ")";
           })
      .def(
          "stats",
          [](const Pointer& store) {
            py::dict stats;
            stats["crowded"] = given(store).crowded_calls();
            return stats;
          },
          "Return what this store has counted, as a new dict.\n\n"
          "crowded: how many decisions used counts that identifiers share because the store had no room\n"
          "left for their own; peeks are not counted.")
      .def("__bool__", [](const Pointer& store) { return (given(store), true); })
      .def("__copy__", [](const Pointer& store) { return (given(store), store); })
      .def(
          "__deepcopy__", [](const Pointer& store, const py::object&) { return (given(store), store); },
          py::arg("memo"))
      .def("__reduce__", [](const Pointer& store) -> py::tuple {
        given(store);
        throw py::type_error(
            "a MemoryStore cannot be pickled: its state stays in this process; a Limiter with "
            "store='memory://' can be, and uses the store of the process that unpickles it");
      });
}

#ifdef OVERLIMIT_LINKS_REDIS
inline void bind_tls_options(pybind11::module_& module) {
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

inline void bind_redis_locations(pybind11::module_& module) {
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
      .def(py::init([](const Addresses& sentinels, std::string service, const EndpointPointer& server) {
        return redis::SentinelLocation{host_ports(sentinels), std::move(service), given(server)};
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

inline redis::Location location_from(const LocationPointer& pointer) {
  return std::visit([](const auto& each) { return redis::Location(given(each)); }, pointer);
}

inline HashTag hash_tag_from(const std::string& name) {
  if (name == "policy") return HashTag::policy;
  return name == "prefix" ? HashTag::prefix : HashTag::none;
}

inline void bind_redis_store(pybind11::module_& module) {
  namespace py = pybind11;
  py::class_<RedisStore, Store, std::shared_ptr<RedisStore>>(module, "RedisStore",
                                                             "The core of overlimit.RedisStore.")
      .def(py::init([](const LocationPointer& location, std::string prefix, const std::string& hash_tag,
                       bool hash_identifiers, std::int64_t timeout_us) {
             RedisStore::Keys keys{std::move(prefix), hash_tag_from(hash_tag), hash_identifiers};
             return std::make_shared<RedisStore>(location_from(location),
                                                 RedisStore::Options{std::move(keys), Duration(timeout_us)});
           }),
           py::arg("location"), py::kw_only(), py::arg("prefix"), py::arg("hash_tag"),
           py::arg("hash_identifiers"), py::arg("timeout_us"))
      .def(
          "close", [](const std::shared_ptr<RedisStore>& store) { given(store).close(); },
          "Close this process's connections; a later call opens new ones.");
}
#endif

/// Seconds as Python gives them to a store, or nothing for None.
inline std::optional<Duration> timeout_of_call(PyObject* seconds) {
  if (seconds == Py_None) return std::nullopt;
  const Object micros = call_hook("timeout_us_given", seconds);
  return Duration(PyLong_AsLongLong(micros.get()));
}

inline double ping(Store& store, PyObject* timeout) {
  const std::optional<Duration> longest = timeout_of_call(timeout);
  Duration took{};
  without_gil([&](const Interrupted& interrupted) { took = store.ping(longest, interrupted); });
  return took.seconds();
}

inline void bind_stores(pybind11::module_& module) {
  namespace py = pybind11;
  using Pointer = std::shared_ptr<Store>;
  py::class_<Store, Pointer>(module, "Store", "Where state lives and decisions are made.")
      .def(
          "ping",
          [](const Pointer& store, const py::object& timeout) {
            return with_python_errors([&] { return ping(given(store), timeout.ptr()); });
          },
          "Ask whoever keeps the counts for an answer, as a call would, and return the seconds it took.\n\n"
          "Nothing is charged or written. Raises what a call would.",
          py::arg("timeout") = py::none());
  bind_memory_store(module);
#ifdef OVERLIMIT_LINKS_REDIS
  bind_tls_options(module);
  bind_redis_locations(module);
  bind_redis_store(module);
#endif
}

}  // namespace overlimit::python
