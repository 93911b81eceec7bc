// Stores: what all have, and those in memory.
#include <pybind11/stl.h>

#include <array>
#include <charconv>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "clock.hpp"
#include "given.hpp"
#include "hooks.hpp"
#include "module.hpp"
#include "overlimit/memory_store.hpp"
#include "overlimit/shared_memory_store.hpp"
#include "waits.hpp"

namespace overlimit::python {
namespace {

/// A size, or the nearest there is: what is out of range is for the store to refuse.
std::size_t size_from(const pybind11::int_& number, const char* argument, std::size_t least) {
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

constexpr const char* kUsage =
    "Return how many keys it has and how much memory they have taken, with the most of each.";

pybind11::dict usage_dict(const MemoryUsage& usage) {
  pybind11::dict dict;
  dict["keys"] = usage.keys;
  dict["max_keys"] = usage.max_keys;
  dict["bytes"] = usage.bytes;
  dict["max_bytes"] = usage.max_bytes;
  return dict;
}

/// Stores are true, however many keys they have.
template <class Bound>
bool is_true(Bound&) {
  return true;
}

std::string repr_of(MemoryStore& store) {
  return "MemoryStore(max_keys=" + std::to_string(store.max_keys()) +
         ", max_bytes=" + std::to_string(store.max_bytes()) + ")";
}

pybind11::tuple refuse_pickling(MemoryStore&) {
  throw pybind11::type_error(
      "a MemoryStore cannot be pickled: its state stays in this process; a Limiter with "
      "store='memory://' can be, and uses the store of the process that unpickles it");
}

void bind_memory_store(pybind11::module_& module) {
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
      .def("__len__", bound(&MemoryStore::size))
      .def("__repr__", bound(repr_of))
      .def("stats",
           bound(+[](MemoryStore& store) { return py::dict(py::arg("crowded") = store.crowded_calls()); }),
           "Return what this store has counted, as a new dict.\n\n"
           "crowded: how many decisions used counts that identifiers share because the store had no room\n"
           "left for their own; peeks are not counted.")
      .def("_usage", bound(+[](MemoryStore& store) { return usage_dict(store.usage()); }), kUsage)
      .def("_clear", bound(&MemoryStore::clear), "Forget everything of all policies, in one step.")
      .def("__bool__", bound(is_true<MemoryStore>))
      .def("__copy__", [](const Pointer& store) { return (given(store), store); })
      .def(
          "__deepcopy__", [](const Pointer& store, const py::object&) { return (given(store), store); },
          py::arg("memo"))
      .def("__reduce__", bound(refuse_pickling));
}

pybind11::dict shared_memory_usage(SharedMemoryStore& store) {
  MemoryUsage usage;
  without_gil([&](const Interrupted&) { usage = store.usage(); });
  return usage_dict(usage);
}

pybind11::dict shared_memory_stats(SharedMemoryStore& store) {
  using pybind11::arg;
  const SharedMemoryStore::Processes processes = store.processes();
  const pybind11::dict counted(arg("attached") = processes.attached, arg("alive") = processes.alive);
  return pybind11::dict(arg("crowded") = store.crowded_calls(), arg("processes") = counted,
                        arg("damaged") = store.damaged_shards(), arg("unlinked") = store.is_unlinked());
}

/// A key as a tuple: its hash in hexadecimal digits, the digest of its policy, when it was created, whether
/// it is shared, and its records.
pybind11::tuple tuple_of(const KeptKey& key) {
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

pybind11::tuple keys_of(SharedMemoryStore& store, std::size_t shard, std::size_t below, std::size_t buckets) {
  std::vector<KeptKey> keys;
  std::size_t next = 0;
  without_gil([&](const Interrupted& interrupted) {
    next = store.copy_keys(shard, below, buckets, keys, interrupted);
  });
  pybind11::list tuples;
  for (const KeptKey& key : keys) tuples.append(tuple_of(key));
  return pybind11::make_tuple(next, std::move(tuples));
}

/// The key that `copy` finds, or None.
template <class Copy>
pybind11::object key_that(const Copy& copy) {
  std::optional<KeptKey> key;
  without_gil([&](const Interrupted& interrupted) { key = copy(interrupted); });
  if (!key) return pybind11::none();
  return tuple_of(*key);
}

pybind11::object key_of(SharedMemoryStore& store, const std::string& policy, const std::string& identifier) {
  const PolicyIdentity identity(policy);
  return key_that(
      [&](const Interrupted& interrupted) { return store.copy_key(identity, identifier, interrupted); });
}

/// Reads what tuple_of() writes.
KeptKey::Hash hash_from(const std::string& digits) {
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

pybind11::object key_at(SharedMemoryStore& store, const std::string& digits) {
  const KeptKey::Hash hash = hash_from(digits);
  return key_that([&](const Interrupted& interrupted) { return store.copy_key(hash, interrupted); });
}

/// Does to a key by its hash what a member function of the store does.
template <auto action, class... Others>
void do_at(SharedMemoryStore& store, const std::string& digits, Others... others) {
  const KeptKey::Hash hash = hash_from(digits);
  without_gil([&](const Interrupted& interrupted) { (store.*action)(hash, others..., interrupted); });
}

std::uint64_t policy_digest(SharedMemoryStore&, const std::string& policy) {
  return PolicyIdentity(policy).digest();
}

void bind_looking_after(
    pybind11::class_<SharedMemoryStore, Store, std::shared_ptr<SharedMemoryStore>>& store) {
  namespace py = pybind11;
  constexpr auto lock = +[](SharedMemoryStore& kept, const std::string& hash, std::int64_t microseconds) {
    do_at<&SharedMemoryStore::lock_key>(kept, hash, Duration(microseconds));
  };
  store
      .def_property_readonly("_shards", bound(&SharedMemoryStore::shards),
                             "How many shards there are; 0 without a file.")
      .def("_keys", bound(keys_of), py::arg("shard"), py::arg("below"), py::arg("buckets"),
           "Return the keys in so many buckets of a shard, and below which bucket to go on; 0: that was all.")
      .def("_key", bound(key_of), py::arg("policy"), py::arg("identifier"), "Return a key, or None.")
      .def("_key_at", bound(key_at), py::arg("hash"), "Return the key with this hash, or None.")
      .def("_reset_at", bound(do_at<&SharedMemoryStore::reset_key>), py::arg("hash"),
           "Remove everything that is stored for the key with this hash.")
      .def("_lock_at", bound(lock), py::arg("hash"), py::arg("microseconds"),
           "Lock the key with this hash, if it is kept.")
      .def("_unlock_at", bound(do_at<&SharedMemoryStore::unlock_key>), py::arg("hash"),
           "Lift the lock of the key with this hash.")
      .def("_policy_digest", bound(policy_digest), py::arg("policy"),
           "Return the hash by which a policy is known.");
}

void bind_shared_memory_store(pybind11::module_& module) {
  namespace py = pybind11;
  using Pointer = std::shared_ptr<SharedMemoryStore>;
  py::class_<SharedMemoryStore, Store, Pointer> store(module, "SharedMemoryStore",
                                                      "The core of overlimit.SharedMemoryStore.");
  store
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
      .def("__len__", bound(&SharedMemoryStore::size))
      .def("__bool__", bound(is_true<SharedMemoryStore>))
      .def("stats", bound(shared_memory_stats), "Return what this store has counted, as a new dict.")
      .def("_usage", bound(shared_memory_usage), kUsage)
      .def("unlink", bound(&SharedMemoryStore::unlink),
           "Remove the file, so that processes that open it from now on begin with an empty one.")
      .def_property_readonly("path", bound(&SharedMemoryStore::path), "Where the file is, or will be.");
  bind_looking_after(store);
}

double ping(Store& store, const pybind11::object& timeout) {
  const std::optional<Duration> longest = store_timeout_from(timeout.ptr());
  Duration took{};
  without_gil([&](const Interrupted& interrupted) { took = store.ping(longest, interrupted); });
  return took.seconds();
}

}  // namespace

void bind_stores(pybind11::module_& module) {
  namespace py = pybind11;
  py::class_<Store, std::shared_ptr<Store>>(module, "Store", "Where state lives and decisions are made.")
      .def("close", bound(&Store::close),
           "Give back what is leased, and close this process's connections; a later call opens new ones.\n\n"
           "A store without them, such as memory, does nothing.")
      .def("ping", bound(ping), py::arg("timeout") = py::none(),
           "Ask whoever keeps the counts for an answer, as a call would, and return the seconds it took.\n\n"
           "Nothing is charged or written. It takes at most timeout seconds, by default the store's timeout. "
           "Raises what a call would.");
  bind_memory_store(module);
  bind_shared_memory_store(module);
  bind_value_store(module);
#ifdef OVERLIMIT_LINKS_REDIS
  bind_redis_store(module);
  bind_raw_servers(module);
#endif
}

}  // namespace overlimit::python
