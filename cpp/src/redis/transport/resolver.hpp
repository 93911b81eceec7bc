// Host names as addresses that can be connected to.
#pragma once

#include <sys/socket.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "redis/transport/per_process.hpp"

namespace overlimit::redis::transport {

struct Address {
  sockaddr_storage storage{};
  socklen_t size = 0;

  [[nodiscard]] const sockaddr* get() const noexcept { return reinterpret_cast<const sockaddr*>(&storage); }
};

/// A lookup of the addresses of a host, which runs in a thread of its own or is done already. Thread-safe.
class Lookup {
 public:
  /// To be run.
  Lookup();
  /// Done already.
  explicit Lookup(std::vector<Address> addresses) : done_(true), addresses_(std::move(addresses)) {}
  Lookup(const Lookup&) = delete;
  Lookup& operator=(const Lookup&) = delete;
  ~Lookup() = default;

  [[nodiscard]] bool is_done() const noexcept { return done_.load(std::memory_order_acquire); }
  /// A descriptor that becomes and stays readable once the lookup is done; -1 if it was done from the start.
  [[nodiscard]] int event() const noexcept { return event_.fd(); }
  /// The addresses, at least one, once the lookup is done. Throws StoreUnavailable when there is no such
  /// host.
  [[nodiscard]] const std::vector<Address>& addresses(const std::string& host) const;

  void run(const std::string& host, const std::string& port) noexcept;

 private:
  const OwnDescriptor event_;
  std::atomic<bool> done_{false};
  int error_ = 0;  // of getaddrinfo; like addresses_, written before done_ is set and read after
  std::vector<Address> addresses_;
};

/// Resolves one host and port. Numeric hosts and "localhost" are resolved at once; any other name in a
/// short-lived thread, as getaddrinfo has no deadline. Callers that come meanwhile share the same lookup, so
/// there is one such thread at a time. Thread-safe.
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

}  // namespace overlimit::redis::transport
