// Opening connections to one endpoint: resolving its host, then connecting.
#pragma once

#include <sys/socket.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "overlimit/redis_location.hpp"
#include "redis/transport/errand.hpp"
#include "redis/transport/socket.hpp"
#include "redis/transport/tls.hpp"
#include "redis/transport/waiting.hpp"

namespace overlimit::redis::transport {

/// How many connections this process and those that it was forked from have opened.
inline std::atomic<std::uint64_t> opened_connections{0};

struct Address {
  sockaddr_storage storage{};
  socklen_t size = 0;

  [[nodiscard]] const sockaddr* get() const noexcept { return reinterpret_cast<const sockaddr*>(&storage); }
};

/// A lookup of the addresses of a host, which is done already or runs in a thread. Thread-safe.
class Lookup {
 public:
  explicit Lookup(std::vector<Address> addresses) : addresses_(std::move(addresses)) {}
  /// Begins one. Throws std::system_error when no thread can be started.
  [[nodiscard]] static std::shared_ptr<Lookup> begun(const std::string& host, const std::string& port);
  [[nodiscard]] bool is_done() const noexcept { return errand_ == nullptr || errand_->is_done(); }
  /// A descriptor that becomes and stays readable once the lookup is done; -1 if it was done from the start.
  [[nodiscard]] int event() const noexcept { return errand_ == nullptr ? -1 : errand_->event(); }
  /// At least one, once the lookup is done. Throws StoreUnavailable when there is no such host.
  [[nodiscard]] const std::vector<Address>& addresses(const std::string& host) const;

 private:
  void run(const std::string& host, const std::string& port) noexcept;

  std::shared_ptr<Errand> errand_;
  int error_ = 0;  // of getaddrinfo; like addresses_, written by the thread
  std::vector<Address> addresses_;
};

/// Numeric hosts and "localhost" are resolved at once; other names in a short-lived thread, one at a time,
/// which callers share, as getaddrinfo has no deadline. Thread-safe.
class Resolver {
 public:
  Resolver(std::string host, std::uint16_t port);
  [[nodiscard]] const std::string& host() const noexcept { return host_; }
  /// Never waits. Throws StoreUnavailable when no thread can be started.
  [[nodiscard]] std::shared_ptr<const Lookup> look_up();

 private:
  [[nodiscard]] std::shared_ptr<const Lookup> lookup_in_thread();

  const std::string host_;
  const std::string port_;
  std::mutex mutex_;
  std::weak_ptr<Lookup> running_;  // guarded by mutex_
};

/// The address of a unix socket. Throws StoreConfigError when the path is too long for one.
[[nodiscard]] Address unix_address(const std::string& path);

/// What all attempts to connect to one endpoint share. Thread-safe.
class Connector {
 public:
  explicit Connector(Endpoint endpoint);
  [[nodiscard]] const Endpoint& endpoint() const noexcept { return endpoint_; }
  [[nodiscard]] Resolver& resolver() noexcept { return resolver_; }
  /// Notes that a connection has been opened, and returns its number: this process numbers all of them, from
  /// 1 on.
  std::uint64_t note_opened() noexcept {
    const std::uint64_t number = opened_connections.fetch_add(1) + 1;
    newest_.store(number);
    return number;
  }
  /// The number of the newest one to this endpoint; 0: there was none.
  [[nodiscard]] std::uint64_t newest() const noexcept { return newest_.load(); }
  /// What TLS begins with; nullptr if the endpoint has none. Reads files, for which a fiber waits until the
  /// deadline. Throws StoreConfigError for a file that cannot be used, and StoreTimeout and WaitInterrupted.
  [[nodiscard]] std::shared_ptr<TlsContext> tls_context(const Deadline& deadline);
  /// Of the newest certificate that was verified.
  [[nodiscard]] std::optional<std::chrono::seconds> certificate_left();

 private:
  [[nodiscard]] std::shared_ptr<TlsContext> new_tls_context(const Deadline& deadline) const;

  const Endpoint endpoint_;
  std::atomic<std::uint64_t> newest_{0};
  Resolver resolver_;
  std::mutex mutex_;
  std::shared_ptr<TlsContext> tls_context_;  // guarded by mutex_; made at the first use
};

/// One attempt to connect, step by step: resolves the host and tries its addresses in turn, each with its
/// share of the remaining time. The deadline may move between steps. Not thread-safe.
class ConnectAttempt {
 public:
  explicit ConnectAttempt(std::shared_ptr<Connector> connector) : connector_(std::move(connector)) {}

  /// Goes on without waiting but for files; returns a connected stream. Throws StoreUnavailable, StoreTimeout
  /// or StoreConfigError; then nothing was sent, and there is no next step.
  [[nodiscard]] std::unique_ptr<Stream> step(const Deadline& deadline);
  [[nodiscard]] Woken wait(const Deadline& deadline) const;

 private:
  enum class Progress { connected, pending, failed };

  [[nodiscard]] bool find_addresses(const Deadline& deadline);
  [[nodiscard]] bool is_connected_now(const Deadline& deadline);
  [[nodiscard]] Progress connect_to(const Address& address, const Deadline& deadline);
  [[nodiscard]] Progress go_on(const Deadline& deadline);
  [[nodiscard]] bool try_next(const Deadline& deadline);
  [[noreturn]] void fail(const Deadline& deadline) const;

  const std::shared_ptr<Connector> connector_;
  std::shared_ptr<const Lookup> lookup_;
  std::vector<Address> addresses_;
  std::size_t tried_ = 0;          // addresses; the last of them is being connected to
  std::optional<Deadline> until_;  // of this address; none: that of the step
  Socket socket_;
  bool is_connected_ = false;
  bool is_under_way_ = false;  // or the backlog of a unix socket is full, and there is no event for its end
  int error_ = 0;              // of the last address
};

/// Connects before the deadline. Throws as step() and check_interrupted() do.
[[nodiscard]] std::unique_ptr<Stream> connect(std::shared_ptr<Connector> connector, const Wait& wait);

}  // namespace overlimit::redis::transport
