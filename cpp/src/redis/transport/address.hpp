// Host names as addresses that can be connected to.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "redis/transport/wait.hpp"

namespace overlimit::redis::transport {

struct Address {
  sockaddr_storage storage{};
  socklen_t size = 0;

  [[nodiscard]] const sockaddr* get() const noexcept { return reinterpret_cast<const sockaddr*>(&storage); }
};

/// The addresses of one host and port. Numeric hosts and "localhost" are read at once; any other name is
/// asked for in a short-lived thread, as getaddrinfo has no deadline. Callers who come meanwhile wait for
/// the same answer, so there is one such thread at a time. Thread-safe.
class Resolver {
 public:
  Resolver(std::string host, std::uint16_t port);

  /// Never empty. Throws StoreUnavailable (no such name), StoreTimeout, WaitInterrupted.
  [[nodiscard]] std::vector<Address> resolve(const Deadline& deadline, const Interrupted& interrupted);

 private:
  struct Lookup;

  [[nodiscard]] std::shared_ptr<Lookup> lookup_in_thread();

  const std::string host_;
  const std::string port_;
  std::mutex mutex_;
  std::weak_ptr<Lookup> running_;  // guarded by mutex_
};

/// The address of a unix socket. Throws StoreConfigError when the path is too long for one.
[[nodiscard]] Address unix_address(const std::string& path);

}  // namespace overlimit::redis::transport
