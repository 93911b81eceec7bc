// Where Redis lives: on one server, behind sentinels, or in a cluster.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "overlimit/redis_endpoint.hpp"

namespace overlimit::redis {

/// The address of one of several servers.
struct HostPort {
  std::string host;
  std::uint16_t port = 0;

  auto operator<=>(const HostPort&) const = default;  // NOLINT(modernize-use-nullptr): LLVM 14 errs
};

/// The master that the sentinels name. `server` says as whom to talk to it, in which database and whether
/// under TLS, which goes for the sentinels too; its own address is unused.
struct SentinelSite {
  std::vector<HostPort> sentinels;  ///< not empty
  std::string service;
  Endpoint server;

  bool operator==(const SentinelSite&) const = default;
};

/// A Redis Cluster. `server` says as whom to talk to its servers and whether under TLS; its own address is
/// unused and its database is 0.
struct ClusterSite {
  std::vector<HostPort> seeds;  ///< not empty: who is asked for the others first
  Endpoint server;

  bool operator==(const ClusterSite&) const = default;
};

using Site = std::variant<Endpoint, SentinelSite, ClusterSite>;

/// `like`, at another address.
[[nodiscard]] inline Endpoint endpoint_at(const HostPort& address, const Endpoint& like) {
  Endpoint endpoint = like;
  endpoint.host = address.host;
  endpoint.port = address.port;
  return endpoint;
}

[[nodiscard]] inline std::string describe(const std::vector<HostPort>& addresses) {
  std::string text;
  for (const HostPort& each : addresses) {
    text += (text.empty() ? "" : ",") + endpoint_at(each, Endpoint()).host_port();
  }
  return text;
}

/// For messages, after "redis at": never the credentials.
[[nodiscard]] inline std::string describe(const Endpoint& server) { return server.describe(); }
[[nodiscard]] inline std::string describe(const SentinelSite& site) {
  return "the master '" + site.service + "' of the sentinels " + describe(site.sentinels);
}
[[nodiscard]] inline std::string describe(const ClusterSite& site) {
  return "the cluster of " + describe(site.seeds);
}

}  // namespace overlimit::redis
