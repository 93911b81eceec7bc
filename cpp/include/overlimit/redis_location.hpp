// Where Redis is (one server, the master that sentinels name, or a cluster), and as whom to talk to it.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace overlimit::redis {

/// How to talk TLS: whom to trust, and who we are. All files are PEM and are read when a connection is
/// opened, once for many connections. An empty text means none.
struct TlsOptions {
  /// The CAs to trust: a file, a directory of files named by hash, a text. None of them: the system's.
  std::string ca_file;
  std::string ca_directory;
  std::string ca_data;
  /// Our certificate (with its chain) and its key, by default in the same file; `key_password` decrypts it.
  std::string certificate_file;
  std::string key_file;
  std::string key_password;
  /// Whether the server's certificate must be of a trusted CA and, if so, for the endpoint's host.
  bool verify = true;
  bool check_hostname = true;

  bool operator==(const TlsOptions&) const = default;
};

/// Equal endpoints may share a connection. With a `unix_path`, `host`, `port` and `tls` are unused.
struct Endpoint {
  std::string host = "localhost";
  std::uint16_t port = 6379;
  std::string unix_path;
  std::string username;
  std::string password;
  int database = 0;
  std::optional<TlsOptions> tls;  ///< none: without TLS
  std::string client_name;        ///< how CLIENT LIST calls its connections; empty: not at all
  /// Every new connection makes sure that the server is no replica, else it fails with StoreUnavailable.
  bool must_be_master = false;

  bool operator==(const Endpoint&) const = default;

  /// "localhost:6379/0", "[::1]:6379/0" or "unix:///path?db=0", for messages: never the credentials.
  [[nodiscard]] std::string describe() const {
    if (!unix_path.empty()) return "unix://" + unix_path + "?db=" + std::to_string(database);
    return host_port() + "/" + std::to_string(database);
  }

  /// "localhost:6379" or "[::1]:6379".
  [[nodiscard]] std::string host_port() const {
    const bool is_ipv6 = host.find(':') != std::string::npos;
    return (is_ipv6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
  }
};

/// The address of one of several servers.
struct HostPort {
  std::string host;
  std::uint16_t port = 0;

  auto operator<=>(const HostPort&) const = default;  // NOLINT(modernize-use-nullptr): LLVM 14 errs
};

/// The master that the sentinels name. `server` says as whom to talk to it, in which database and whether
/// under TLS, and `sentinel` says so of the sentinels; their addresses are unused.
struct SentinelLocation {
  std::vector<HostPort> sentinels;  ///< not empty
  std::string service;
  Endpoint server;
  Endpoint sentinel{};

  bool operator==(const SentinelLocation&) const = default;
};

/// A Redis Cluster. `server` says as whom to talk to its servers and whether under TLS; its own address is
/// unused and its database is 0.
struct ClusterLocation {
  std::vector<HostPort> seeds;  ///< not empty: the nodes that are first asked for the others
  Endpoint server;

  bool operator==(const ClusterLocation&) const = default;
};

using Location = std::variant<Endpoint, SentinelLocation, ClusterLocation>;

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
[[nodiscard]] inline std::string describe(const SentinelLocation& location) {
  return "the master '" + location.service + "' of the sentinels " + describe(location.sentinels);
}
[[nodiscard]] inline std::string describe(const ClusterLocation& location) {
  return "the cluster of " + describe(location.seeds);
}

}  // namespace overlimit::redis
