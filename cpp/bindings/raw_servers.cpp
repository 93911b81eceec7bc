// What looks after a store asks its servers: any command, as it is.
#include <pybind11/chrono.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "given.hpp"
#include "module.hpp"
#include "redis/plain/servers.hpp"
#include "redis/protocol/command.hpp"
#include "redis/protocol/failures.hpp"
#include "waits.hpp"

namespace overlimit::python {
namespace {

namespace py = pybind11;
using redis::HostPort;
using redis::Servers;
using redis::protocol::Reply;
using redis::protocol::SlotMap;
using Pointer = std::shared_ptr<Servers>;
using Words = std::vector<std::string>;

std::string encoded(const Words& words) {
  std::string command;
  redis::protocol::append_command(command, std::vector<std::string_view>(words.begin(), words.end()));
  return command;
}

std::string described(const Servers& server) {
  const auto* const endpoint = std::get_if<redis::Endpoint>(&server.location());
  if (endpoint != nullptr) return endpoint->host_port();
  return std::visit([](const auto& each) { return redis::describe(each); }, server.location());
}

/// An error is what a store would raise, as a value.
py::object object_from(const Reply& reply, const Servers& server) {
  if (reply.is_integer()) return py::int_(reply.as_integer());
  if (reply.is_text()) return py::bytes(reply.as_text());
  if (reply.is_nil()) return py::none();
  if (reply.is_array()) {
    py::list list;
    for (const Reply& each : reply.as_array()) list.append(object_from(each, server));
    return list;
  }
  try {
    redis::protocol::raise_error_reply(reply.as_text(), described(server));
  } catch (const StoreError&) {
    set_python_error();
  }
  return py::error_already_set().value();
}

/// Each is sent once, all before any reply is awaited.
py::list ask(Servers& server, const std::vector<Words>& commands) {
  if (commands.empty()) return py::list();
  std::vector<std::string> sent;
  for (const Words& words : commands) sent.push_back(encoded(words));
  std::vector<std::optional<Reply>> replies(sent.size());
  without_gil([&](const Interrupted& interrupted) {
    redis::naming_timeout(server.timeout(), [&] {
      const std::vector<std::optional<Servers::Slot>> slots(sent.size());
      server.topology().call_many(sent, slots, replies, {server.deadline(), interrupted});
    });
  });
  py::list answers;
  for (const std::optional<Reply>& reply : replies) answers.append(object_from(reply.value(), server));
  return answers;
}

/// As the first node says that answers.
SlotMap slots_of(const redis::ClusterLocation& cluster, Duration timeout, const Interrupted& interrupted) {
  redis::FirstError failure;
  for (const HostPort& seed : cluster.seeds) {
    Servers node(redis::endpoint_at(seed, cluster.server), timeout);
    const redis::transport::Wait wait{node.deadline(), interrupted};
    try {
      const Reply reply = node.checked(node.topology().call(encoded({"CLUSTER", "SLOTS"}), {}, wait));
      if (std::optional<SlotMap> slots = SlotMap::read(reply, seed)) return *std::move(slots);
    } catch (const StoreError&) {
      failure.note();
    }
  }
  failure.raise_if_any();
  throw StoreUnavailable("no node of " + redis::describe(cluster) + " says which of them serves which slot");
}

std::vector<Pointer> servers_of(const redis::Location& location, Duration timeout, const std::string& key) {
  const auto* const cluster = std::get_if<redis::ClusterLocation>(&location);
  if (cluster == nullptr) return {std::make_shared<Servers>(location, timeout)};
  SlotMap slots;
  without_gil([&](const Interrupted& interrupted) { slots = slots_of(*cluster, timeout, interrupted); });
  std::set<HostPort> masters = slots.masters();
  if (!key.empty()) {
    const redis::protocol::Slot slot = redis::protocol::key_slot(key);
    const HostPort* const owner = slots.master_of(slot);
    if (owner == nullptr)
      throw StoreUnavailable("no node of the cluster serves slot " + std::to_string(slot));
    masters = {*owner};
  }
  std::vector<Pointer> servers;
  for (const HostPort& each : masters)
    servers.push_back(std::make_shared<Servers>(redis::endpoint_at(each, cluster->server), timeout));
  return servers;
}

}  // namespace

void bind_raw_servers(py::module_& module) {
  py::class_<Servers, Pointer>(module, "RawServer", "A server of Redis that is asked anything.")
      .def_property_readonly("name", bound(+[](Servers& self) { return described(self); }))
      .def("ask", bound(ask), py::arg("commands"),
           "Send commands, and return the answers; an error is one that a store would raise, as a value.")
      .def("certificate_left", bound(+[](Servers& self) { return self.topology().certificate_left(); }),
           "Return for how long the certificate is valid, if it is verified, since it was last seen.");
  module.def(
      "raw_servers",
      [](const py::dict& location, std::int64_t timeout_us, const std::string& key) {
        return with_python_errors(
            [&] { return servers_of(location_from(location), Duration(timeout_us), key); });
      },
      py::arg("location"), py::arg("timeout_us"), py::arg("key") = "",
      "Return the servers that have keys of their own; of a cluster, the one that has a key, if given.");
}

}  // namespace overlimit::python
