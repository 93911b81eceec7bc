// Where a Redis server is and as whom to talk to it.
#pragma once

#include <cstdint>
#include <string>

namespace overlimit::redis {

/// The address, credentials and database of one server. A value: two equal endpoints may share a
/// connection. `unix_path` non-empty means a unix socket; `host` and `port` are then unused.
struct Endpoint {
  std::string host = "localhost";
  std::uint16_t port = 6379;
  std::string unix_path;
  std::string username;
  std::string password;
  int database = 0;

  bool operator==(const Endpoint&) const = default;

  /// "localhost:6379/0", "[::1]:6379/0" or "unix:/path?db=0", for messages: never the credentials.
  [[nodiscard]] std::string describe() const {
    if (!unix_path.empty()) return "unix:" + unix_path + "?db=" + std::to_string(database);
    const bool is_ipv6 = host.find(':') != std::string::npos;
    return (is_ipv6 ? "[" + host + "]" : host) + ":" + std::to_string(port) + "/" + std::to_string(database);
  }
};

}  // namespace overlimit::redis
