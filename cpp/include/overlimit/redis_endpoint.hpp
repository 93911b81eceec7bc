// Where a Redis server is and as whom to talk to it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace overlimit::redis {

/// How to talk TLS: whom to trust, and who we are. All files are PEM and are read when a connection is
/// opened, once for many connections. An empty text means none.
struct TlsOptions {
  /// The CAs to trust: a file, a directory of files named by hash, a text. None of them: the system's.
  std::string ca_file;
  std::string ca_directory;
  std::string ca_data;
  /// Our certificate (and its chain) and its key; the key is looked for in the certificate's file when its
  /// own is empty. `key_password` decrypts it.
  std::string certificate_file;
  std::string key_file;
  std::string key_password;
  /// Whether the server's certificate must be of a trusted CA and, if so, for the endpoint's host.
  bool verify = true;
  bool check_hostname = true;

  bool operator==(const TlsOptions&) const = default;
};

/// The address, credentials and database of one server. A value: two equal endpoints may share a
/// connection. `unix_path` non-empty means a unix socket; `host`, `port` and `tls` are then unused.
struct Endpoint {
  std::string host = "localhost";
  std::uint16_t port = 6379;
  std::string unix_path;
  std::string username;
  std::string password;
  int database = 0;
  std::optional<TlsOptions> tls;  ///< none: in the clear
  /// Every new connection makes sure that the server is no replica, else it fails with StoreUnavailable.
  bool must_be_master = false;

  bool operator==(const Endpoint&) const = default;

  /// "localhost:6379/0", "[::1]:6379/0" or "unix:/path?db=0", for messages: never the credentials.
  [[nodiscard]] std::string describe() const {
    if (!unix_path.empty()) return "unix:" + unix_path + "?db=" + std::to_string(database);
    return host_port() + "/" + std::to_string(database);
  }

  /// "localhost:6379" or "[::1]:6379".
  [[nodiscard]] std::string host_port() const {
    const bool is_ipv6 = host.find(':') != std::string::npos;
    return (is_ipv6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
  }
};

}  // namespace overlimit::redis
