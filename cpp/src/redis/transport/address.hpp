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

#include "redis/transport/open_descriptors.hpp"

namespace overlimit::redis::transport {

struct Address {
  sockaddr_storage storage{};
  socklen_t size = 0;

  [[nodiscard]] const sockaddr* get() const noexcept { return reinterpret_cast<const sockaddr*>(&storage); }
};

/// A question for the addresses of a host, asked in a thread of its own or answered already. Thread-safe.
class Lookup {
 public:
  /// Asked when it is run.
  Lookup();
  /// Answered.
  explicit Lookup(std::vector<Address> addresses) : done_(true), addresses_(std::move(addresses)) {}
  Lookup(const Lookup&) = delete;
  Lookup& operator=(const Lookup&) = delete;
  ~Lookup() = default;

  [[nodiscard]] bool is_done() const noexcept { return done_.load(std::memory_order_acquire); }
  /// Becomes readable, for good, once it is done; -1 if it was from the start.
  [[nodiscard]] int event() const noexcept { return event_.fd(); }
  /// Once it is done; never empty. Throws StoreUnavailable when there is no such host.
  [[nodiscard]] const std::vector<Address>& addresses(const std::string& host) const;

  void run(const std::string& host, const std::string& port) noexcept;

 private:
  const OwnDescriptor event_;
  std::atomic<bool> done_{false};
  int error_ = 0;  // of getaddrinfo; written before done_, read after, as the addresses are
  std::vector<Address> addresses_;
};

/// The addresses of one host and port. Numeric hosts and "localhost" are read at once; any other name is
/// asked for in a short-lived thread, as getaddrinfo has no deadline. Those who come meanwhile get the same
/// question, so there is one such thread at a time. Thread-safe.
class Resolver {
 public:
  Resolver(std::string host, std::uint16_t port);

  [[nodiscard]] const std::string& host() const noexcept { return host_; }
  /// Never waits. Throws StoreUnavailable when nothing can be asked.
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
