#include "redis/transport/deployment.hpp"

#include <variant>

#include "redis/transport/cluster.hpp"
#include "redis/transport/per_process.hpp"
#include "redis/transport/sentinels.hpp"
#include "redis/transport/single_server.hpp"

namespace overlimit::redis::transport {
namespace {

std::shared_ptr<Deployment> made(const Endpoint& server) {
  return std::make_shared<SingleServer>(node_of(server));
}
std::shared_ptr<Deployment> made(const SentinelSite& site) { return std::make_shared<Sentinels>(site); }
std::shared_ptr<Deployment> made(const ClusterSite& site) { return std::make_shared<Cluster>(site); }

}  // namespace

std::shared_ptr<Deployment> deployment_of(const Site& site) {
  return registry_of_process<Site, Deployment>().of(
      site, [&] { return std::visit([](const auto& each) { return made(each); }, site); });
}

}  // namespace overlimit::redis::transport
