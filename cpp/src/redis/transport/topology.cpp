#include "redis/transport/topology.hpp"

#include <variant>

#include "redis/transport/cluster.hpp"
#include "redis/transport/per_process.hpp"
#include "redis/transport/sentinels.hpp"
#include "redis/transport/single_server.hpp"

namespace overlimit::redis::transport {
namespace {

std::shared_ptr<Topology> made(const Endpoint& server) {
  return std::make_shared<SingleServer>(node_of(server));
}
std::shared_ptr<Topology> made(const SentinelLocation& location) {
  return std::make_shared<Sentinels>(location);
}
std::shared_ptr<Topology> made(const ClusterLocation& location) {
  return std::make_shared<Cluster>(location);
}

}  // namespace

std::shared_ptr<Topology> topology_of(const Location& location) {
  return registry_of_process<Location, Topology>().of(
      location, [&] { return std::visit([](const auto& each) { return made(each); }, location); });
}

}  // namespace overlimit::redis::transport
