// Part of module.cpp: the stores, and what the Redis store would send.
#pragma once

#include <pybind11/stl.h>

#include <array>
#include <charconv>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "clock.hpp"
#include "counters.hpp"
#include "given.hpp"
#include "hooks.hpp"
#include "object.hpp"
#include "overlimit/memory_store.hpp"
#ifdef OVERLIMIT_LINKS_REDIS
#include "hooks.hpp"
#include "object.hpp"
#include "overlimit/redis_scripts.hpp"
#include "overlimit/shared_memory_store.hpp"
#include "policy.hpp"
#include "waits.hpp"
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

inline pybind11::dict usage_dict(const MemoryUsage& usage) {
  pybind11::dict dict;
  dict["keys"] = usage.keys;
  dict["max_keys"] = usage.max_keys;
  dict["bytes"] = usage.bytes;
  dict["max_bytes"] = usage.max_bytes;
  return dict;
}

constexpr const char* kUsage =
    "Return how many keys it has and how much memory they have taken, with the most of each.";

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
      .def(
          "_usage", [](const Pointer& store) { return usage_dict(given(store).usage()); }, kUsage)
      .def(
          "_clear", [](const Pointer& store) { given(store).clear(); },
          "Forget everything of all policies, in one step.")
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

/// Has Python log a warning; called with the GIL or without it.
inline void warn_about_shared_memory(const std::string& message) {
  in_python([&] {
    try {
      const Object text = text_of(message.c_str());
      call_hook("warn_about_shared_memory", checked(text.get()));
    } catch (const PythonError&) {
      PyErr_WriteUnraisable(nullptr);
    }
  });
}

inline MemoryUsage used_without_gil(SharedMemoryStore& store) {
  MemoryUsage usage;
  with_python_errors([&] { without_gil([&](const Interrupted&) { usage = store.usage(); }); });
  return usage;
}

inline pybind11::dict shared_memory_stats(SharedMemoryStore& store) {
  namespace py = pybind11;
  const SharedMemoryStore::Processes processes = store.processes();
  py::dict counted;
  counted["attached"] = processes.attached;
  counted["alive"] = processes.alive;
  py::dict stats;
  stats["crowded"] = store.crowded_calls();
  stats["processes"] = counted;
  stats["damaged"] = store.damaged_shards();
  stats["unlinked"] = store.is_unlinked();
  return stats;
}

/// A key as a tuple: its hash in hexadecimal digits, the digest of its policy, when it was created, whether
/// it is shared, and its records.
inline pybind11::tuple tuple_of(const KeptKey& key) {
  namespace py = pybind11;
  py::list records;
  for (const KeptKey::Record& record : key.records) {
    py::list cells;
    for (const Cell& cell : record.cells) cells.append(py::make_tuple(cell.at, cell.count));
    const auto& [first, second, third] = record.header;
    records.append(py::make_tuple(record.tag, record.expires_at.micros(),
                                  py::make_tuple(first, second, third), std::move(cells)));
  }
  std::array<char, 25> hash{};
  std::snprintf(hash.data(), hash.size(), "%08x%016llx", unsigned{key.hash.high},
                static_cast<unsigned long long>(key.hash.low));
  return py::make_tuple(hash.data(), key.policy, key.created_at.micros(), key.is_overflow,
                        std::move(records));
}

inline pybind11::tuple keys_of(SharedMemoryStore& store, std::size_t shard, std::size_t below,
                               std::size_t buckets) {
  std::vector<KeptKey> keys;
  std::size_t next = 0;
  without_gil([&](const Interrupted& interrupted) {
    next = store.copy_keys(shard, below, buckets, keys, interrupted);
  });
  pybind11::list tuples;
  for (const KeptKey& key : keys) tuples.append(tuple_of(key));
  return pybind11::make_tuple(next, std::move(tuples));
}

inline pybind11::object key_of(SharedMemoryStore& store, const std::string& policy,
                               const std::string& identifier) {
  const PolicyIdentity identity(policy);
  std::optional<KeptKey> key;
  without_gil(
      [&](const Interrupted& interrupted) { key = store.copy_key(identity, identifier, interrupted); });
  if (!key) return pybind11::none();
  return tuple_of(*key);
}

/// Reads what tuple_of() writes.
inline KeptKey::Hash hash_from(const std::string& digits) {
  constexpr std::size_t kHigh = 8;
  constexpr std::size_t kDigits = 24;
  KeptKey::Hash hash{};
  const char* const begin = digits.data();
  const char* const end = begin + digits.size();
  const bool is_hash = digits.size() == kDigits &&
                       std::from_chars(begin, begin + kHigh, hash.high, 16).ptr == begin + kHigh &&
                       std::from_chars(begin + kHigh, end, hash.low, 16).ptr == end;
  if (!is_hash) throw pybind11::value_error("hash must be 24 hexadecimal digits, not '" + digits + "'");
  return hash;
}

inline pybind11::object key_at(SharedMemoryStore& store, const KeptKey::Hash& hash) {
  std::optional<KeptKey> key;
  without_gil([&](const Interrupted& interrupted) { key = store.copy_key(hash, interrupted); });
  if (!key) return pybind11::none();
  return tuple_of(*key);
}

/// For what is done to a key by its hash.
template <class Action>
void do_at(const std::shared_ptr<SharedMemoryStore>& self, const std::string& digits, const Action& action) {
  with_python_errors([&] {
    SharedMemoryStore& store = given(self);
    const KeptKey::Hash hash = hash_from(digits);
    without_gil([&](const Interrupted& interrupted) { action(store, hash, interrupted); });
  });
}

inline void bind_looking_after(
    pybind11::class_<SharedMemoryStore, Store, std::shared_ptr<SharedMemoryStore>>& store) {
  namespace py = pybind11;
  using Pointer = std::shared_ptr<SharedMemoryStore>;
  store
      .def_property_readonly(
          "_shards", [](const Pointer& self) { return given(self).shards(); },
          "How many shards there are; 0 without a file.")
      .def(
          "_keys",
          [](const Pointer& self, std::size_t shard, std::size_t below, std::size_t buckets) {
            return with_python_errors([&] { return keys_of(given(self), shard, below, buckets); });
          },
          py::arg("shard"), py::arg("below"), py::arg("buckets"),
          "Return the keys in so many buckets of a shard, and below which bucket to go on; 0: that was all.")
      .def(
          "_key",
          [](const Pointer& self, const std::string& policy, const std::string& identifier) {
            return with_python_errors([&] { return key_of(given(self), policy, identifier); });
          },
          py::arg("policy"), py::arg("identifier"), "Return a key, or None.")
      .def(
          "_key_at",
          [](const Pointer& self, const std::string& hash) {
            return with_python_errors([&] { return key_at(given(self), hash_from(hash)); });
          },
          py::arg("hash"), "Return the key with this hash, or None.")
      .def(
          "_reset_at",
          [](const Pointer& self, const std::string& hash) {
            do_at(self, hash, [](auto& kept, const auto&... told) { kept.reset_key(told...); });
          },
          py::arg("hash"), "Remove everything that is stored for the key with this hash.")
      .def(
          "_lock_at",
          [](const Pointer& self, const std::string& hash, std::int64_t microseconds) {
            do_at(self, hash, [&](auto& kept, const auto& at, const Interrupted& interrupted) {
              kept.lock_key(at, Duration(microseconds), interrupted);
            });
          },
          py::arg("hash"), py::arg("microseconds"), "Lock the key with this hash, if it is kept.")
      .def(
          "_unlock_at",
          [](const Pointer& self, const std::string& hash) {
            do_at(self, hash, [](auto& kept, const auto&... told) { kept.unlock_key(told...); });
          },
          py::arg("hash"), "Lift the lock of the key with this hash.")
      .def(
          "_policy_digest",
          [](const Pointer&, const std::string& policy) {
            return with_python_errors([&] { return PolicyIdentity(policy).digest(); });
          },
          py::arg("policy"), "Return the hash by which a policy is known.");
}

inline void bind_shared_memory_store(pybind11::module_& module) {
  namespace py = pybind11;
  using Pointer = std::shared_ptr<SharedMemoryStore>;
  py::class_<SharedMemoryStore, Store, Pointer> bound(module, "SharedMemoryStore",
                                                      "The core of overlimit.SharedMemoryStore.");
  bound
      .def(py::init([](std::string name_or_path, const std::optional<py::int_>& max_keys,
                       const std::optional<py::int_>& max_bytes, unsigned mode, std::int64_t timeout_us) {
             SharedMemoryStore::Options options{.name_or_path = std::move(name_or_path),
                                                .mode = static_cast<mode_t>(mode),
                                                .timeout = Duration(timeout_us),
                                                .warn = warn_about_shared_memory};
             if (max_keys) options.max_keys = size_from(*max_keys, "max_keys", 1);
             if (max_bytes)
               options.max_bytes = size_from(*max_bytes, "max_bytes", SharedMemoryStore::kMinBytes);
             return std::make_shared<SharedMemoryStore>(std::move(options));
           }),
           py::arg("name_or_path"), py::kw_only(), py::arg("max_keys"), py::arg("max_bytes"), py::arg("mode"),
           py::arg("timeout_us"))
      .def("__len__", [](const Pointer& store) { return given(store).size(); })
      .def("__bool__", [](const Pointer& store) { return (given(store), true); })
      .def(
          "stats", [](const Pointer& store) { return shared_memory_stats(given(store)); },
          "Return what this store has counted, as a new dict.")
      .def(
          "_usage", [](const Pointer& store) { return usage_dict(used_without_gil(given(store))); }, kUsage)
      .def(
          "unlink", [](const Pointer& store) { given(store).unlink(); },
          "Remove the file, so that processes that open it from now on begin with an empty one.")
      .def_property_readonly(
          "path", [](const Pointer& store) { return given(store).path(); }, "Where the file is, or will be.");
  bind_looking_after(bound);
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

inline redis::Location location_from(const LocationPointer& pointer) {
  return std::visit([](const auto& each) { return redis::Location(given(each)); }, pointer);
}

inline HashTag hash_tag_from(const std::string& name) {
  if (name == "policy") return HashTag::policy;
  return name == "prefix" ? HashTag::prefix : HashTag::none;
}

/// For metrics; called without the GIL, or with it.
inline void count_units(std::string_view policy, redis::Units what, std::uint64_t count) noexcept {
  try {
    slot_of(SlotKind::policy, policy).add_anywhere(place::kUnits + std::size_t(what), count);
  } catch (const std::bad_alloc&) {
  }
}

inline void bind_redis_store(pybind11::module_& module) {
  namespace py = pybind11;
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
}

inline redis::ScriptUse script_use_from(const std::string& name) {
  if (name == "read") return redis::ScriptUse::read;
  if (name == "refund") return redis::ScriptUse::refund;
  if (name == "lock") return redis::ScriptUse::lock;
  if (name == "lease") return redis::ScriptUse::lease;
  if (name == "restore") return redis::ScriptUse::restore;
  if (name == "decide") return redis::ScriptUse::decide;
  throw pybind11::value_error(
      "which must be 'decide', 'read', 'refund', 'lock', 'lease' or 'restore', not '" + name + "'");
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

#endif

inline double ping(Store& store, PyObject* timeout) {
  const std::optional<Duration> longest = store_timeout_from(timeout);
  Duration took{};
  without_gil([&](const Interrupted& interrupted) { took = store.ping(longest, interrupted); });
  return took.seconds();
}

inline void bind_stores(pybind11::module_& module) {
  namespace py = pybind11;
  using Pointer = std::shared_ptr<Store>;
  py::class_<Store, Pointer>(module, "Store", "Where state lives and decisions are made.")
      .def(
          "close", [](const Pointer& store) { given(store).close(); },
          "Give back what is leased, and close this process's connections; a later call opens new ones.\n\n"
          "A store without them, such as memory, does nothing.")
      .def(
          "ping",
          [](const Pointer& store, const py::object& timeout) {
            return with_python_errors([&] { return ping(given(store), timeout.ptr()); });
          },
          "Ask whoever keeps the counts for an answer, as a call would, and return the seconds it took.\n\n"
          "Nothing is charged or written. It takes at most timeout seconds, by default the store's timeout. "
          "Raises what a call would.",
          py::arg("timeout") = py::none());
  bind_memory_store(module);
  bind_shared_memory_store(module);
#ifdef OVERLIMIT_LINKS_REDIS
  bind_tls_options(module);
  bind_redis_locations(module);
  bind_redis_store(module);
  bind_redis_scripts(module);

#endif
}

}  // namespace overlimit::python
