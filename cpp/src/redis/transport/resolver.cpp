#include "redis/transport/resolver.hpp"

#include <netdb.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/un.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <new>
#include <system_error>
#include <thread>
#include <utility>

#include "overlimit/errors.hpp"
#include "overlimit/forks.hpp"

namespace overlimit::redis::transport {

namespace {

struct Resolved {
  int error = 0;  // of getaddrinfo
  std::vector<Address> addresses;
};

Resolved resolve(const std::string& host, const std::string& port, int flags = 0) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | flags;
  addrinfo* list = nullptr;
  const MostlyOutsideForks outside;
  Resolved resolved{::getaddrinfo(host.c_str(), port.c_str(), &hints, &list), {}};
  if (resolved.error != 0) return resolved;
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(list, ::freeaddrinfo);
  for (const addrinfo* each = list; each != nullptr; each = each->ai_next) {
    Address& address = resolved.addresses.emplace_back();
    std::memcpy(&address.storage, each->ai_addr, each->ai_addrlen);
    address.size = each->ai_addrlen;
  }
  return resolved;
}

/// Blocks signals in a new thread, so that they go to the threads of the program, whose waits they end.
class SignalsBlocked {
 public:
  SignalsBlocked() noexcept {
    sigset_t all;
    sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;
  ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_{};
};

}  // namespace

Lookup::Lookup() : event_(OwnDescriptor::opened([] { return ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK); })) {
  if (event_.fd() < 0) throw std::system_error(errno, std::system_category(), "eventfd");
}

void Lookup::run(const std::string& host, const std::string& port) noexcept {
  try {
    Resolved resolved = resolve(host, port);
    error_ = resolved.error;
    addresses_ = std::move(resolved.addresses);
  } catch (const std::bad_alloc&) {
    error_ = EAI_MEMORY;
  }
  done_.store(true, std::memory_order_release);
  ::eventfd_write(event_.fd(), 1);
}

const std::vector<Address>& Lookup::addresses(const std::string& host) const {
  if (error_ == 0) return addresses_;
  throw StoreUnavailable("cannot resolve the redis host " + host + ": " + ::gai_strerror(error_) +
                         "; check the name in the URL");
}

Resolver::Resolver(std::string host, std::uint16_t port)
    : host_(std::move(host)), port_(std::to_string(port)) {}

std::shared_ptr<const Lookup> Resolver::look_up() {
  Resolved resolved = resolve(host_, port_, host_ == "localhost" ? 0 : AI_NUMERICHOST);
  if (resolved.error == 0) return std::make_shared<const Lookup>(std::move(resolved.addresses));
  return lookup_in_thread();
}

std::shared_ptr<const Lookup> Resolver::lookup_in_thread() try {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<Lookup> lookup = running_.lock();
  if (lookup && !lookup->is_done()) return lookup;
  lookup = std::make_shared<Lookup>();
  const SignalsBlocked blocked;
  std::thread([lookup, host = host_, port = port_] { lookup->run(host, port); }).detach();
  running_ = lookup;
  return lookup;
} catch (const std::system_error& error) {
  throw StoreUnavailable("cannot resolve the redis host " + host_ + ": " + error.what());
}

Address unix_address(const std::string& path) {
  sockaddr_un unix_domain{};
  if (path.size() >= sizeof unix_domain.sun_path) {
    throw StoreConfigError("the path of the redis unix socket is longer than " +
                           std::to_string(sizeof unix_domain.sun_path - 1) + " bytes: " + path);
  }
  unix_domain.sun_family = AF_UNIX;
  path.copy(unix_domain.sun_path, path.size());
  Address address;
  std::memcpy(&address.storage, &unix_domain, sizeof unix_domain);
  address.size = sizeof unix_domain;
  return address;
}

}  // namespace overlimit::redis::transport
