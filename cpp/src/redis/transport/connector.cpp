#include "redis/transport/connector.hpp"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/un.h>
#include <unistd.h>
#include <mutex>

#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "platform/descriptors.hpp"

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

// The kernel notices a peer that has vanished after half a minute at the latest.
constexpr platform::Keepalive kKeepalive{
    .idle_seconds = 15, .interval_seconds = 5, .probes = 3, .unanswered_ms = 30'000};

constexpr std::chrono::milliseconds kNextTryOfAFullSocket{1};

/// An option that the system does not have is no reason to fail.
void tune(const Socket& socket) {
  const int on = 1;
  ::setsockopt(socket.fd(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  platform::keep_alive(socket.fd(), kKeepalive);
}

/// A connecting socket may be given the very port that it connects to, if nobody listens on it, and is then
/// connected to itself.
bool is_connected_to_itself(const Socket& socket) {
  Address local;
  Address peer;
  local.size = peer.size = sizeof local.storage;
  ::getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&local.storage), &local.size);
  ::getpeername(socket.fd(), reinterpret_cast<sockaddr*>(&peer.storage), &peer.size);
  return local.storage.ss_family != AF_UNIX && local.size == peer.size &&
         std::memcmp(&local.storage, &peer.storage, local.size) == 0;
}

int pending_error(const Socket& socket) {
  int error = 0;
  socklen_t size = sizeof error;
  ::getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &error, &size);
  return error;
}

}  // namespace

std::shared_ptr<Lookup> Lookup::begun(const std::string& host, const std::string& port) {
  auto lookup = std::make_shared<Lookup>(std::vector<Address>());
  lookup->errand_ = Errand::begun([lookup, host, port] { lookup->run(host, port); });
  return lookup;
}

void Lookup::run(const std::string& host, const std::string& port) noexcept {
  try {
    Resolved resolved = resolve(host, port);
    error_ = resolved.error;
    addresses_ = std::move(resolved.addresses);
  } catch (const std::bad_alloc&) {
    error_ = EAI_MEMORY;
  }
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
  lookup = Lookup::begun(host_, port_);
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

Connector::Connector(Endpoint endpoint)
    : endpoint_(std::move(endpoint)), resolver_(endpoint_.host, endpoint_.port) {}

/// Reads the files again once a connection has failed, since certificates are renewed.
std::shared_ptr<TlsContext> Connector::tls_context(const Deadline& deadline) {
  if (!endpoint_.tls || !endpoint_.unix_path.empty()) return nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (tls_context_ && !tls_context_->is_stale()) return tls_context_;
  }
  std::shared_ptr<TlsContext> made = new_tls_context(deadline);
  const std::lock_guard lock(mutex_);
  return tls_context_ = std::move(made);
}

std::optional<std::chrono::seconds> Connector::certificate_left() {
  const std::lock_guard lock(mutex_);
  const std::int64_t left = tls_context_ ? tls_context_->certificate_left() : -1;
  return left < 0 ? std::nullopt : std::optional(std::chrono::seconds(left));
}

/// All CAs that a system trusts take longer to read than an event loop may be blocked.
std::shared_ptr<TlsContext> Connector::new_tls_context(const Deadline& deadline) const try {
  if (Fibers::current() == nullptr) return std::make_shared<TlsContext>(endpoint_);
  struct Made {
    std::shared_ptr<TlsContext> context;
    std::exception_ptr failure;
  };
  const auto made = std::make_shared<Made>();
  const auto errand = Errand::begun([made, endpoint = endpoint_] {
    try {
      made->context = std::make_shared<TlsContext>(endpoint);
    } catch (...) {
      made->failure = std::current_exception();
    }
  });
  while (!errand->is_done()) {
    const Woken woken = wait_for(errand->event(), POLLIN, deadline);
    if (woken == Woken::by_signal) throw WaitInterrupted();
    if (woken == Woken::by_deadline && !errand->is_done()) {
      throw StoreTimeout("reading the TLS files for redis at " + endpoint_.describe() +
                         " took longer than the timeout");
    }
  }
  if (made->failure) std::rethrow_exception(std::exchange(made->failure, nullptr));
  return std::move(made->context);
} catch (const std::system_error& error) {
  throw StoreUnavailable("cannot read the TLS files for redis at " + endpoint_.describe() + ": " +
                         error.what());
}

std::unique_ptr<Stream> ConnectAttempt::step(const Deadline& deadline) {
  if (addresses_.empty() && !find_addresses(deadline)) return nullptr;
  if (!is_connected_ && !is_connected_now(deadline)) return nullptr;
  const std::shared_ptr<TlsContext> tls = connector_->tls_context(deadline);
  if (tls == nullptr) return std::make_unique<PlainStream>(std::move(socket_));
  return tls_stream(std::move(socket_), tls);
}

bool ConnectAttempt::is_connected_now(const Deadline& deadline) {
  Progress progress = socket_.is_open() ? go_on(deadline) : Progress::failed;
  while (progress == Progress::failed) {
    if (!try_next(deadline)) fail(deadline);
    progress = connect_to(addresses_[tried_ - 1], deadline);
  }
  is_connected_ = progress == Progress::connected;
  return is_connected_;
}

bool ConnectAttempt::find_addresses(const Deadline& deadline) {
  const std::string& path = connector_->endpoint().unix_path;
  if (!path.empty()) {
    addresses_.push_back(unix_address(path));
    return true;
  }
  if (!lookup_) lookup_ = connector_->resolver().look_up();
  if (lookup_->is_done()) {
    addresses_ = lookup_->addresses(connector_->resolver().host());
    return true;
  }
  if (!deadline.passed()) return false;
  throw StoreTimeout("resolving the redis host " + connector_->resolver().host() +
                     " took longer than the timeout; check the name server");
}

bool ConnectAttempt::try_next(const Deadline& deadline) {
  if (tried_ == addresses_.size() || deadline.passed()) return false;
  const auto left = static_cast<int>(addresses_.size() - tried_);
  until_ = left > 1 ? std::optional(deadline.share(left)) : std::nullopt;
  ++tried_;
  return true;
}

ConnectAttempt::Progress ConnectAttempt::connect_to(const Address& address, const Deadline& deadline) {
  socket_ = Socket::new_stream(address.storage.ss_family);
  is_under_way_ = false;
  if (!socket_.is_open()) {
    error_ = errno;
    return Progress::failed;
  }
  if (address.storage.ss_family != AF_UNIX) tune(socket_);
  return go_on(deadline);
}

/// Systems differ in what a second connect(2) does, so it is left at the first one that has begun.
ConnectAttempt::Progress ConnectAttempt::go_on(const Deadline& deadline) {
  const Address& address = addresses_[tried_ - 1];
  if (!is_under_way_) error_ = ::connect(socket_.fd(), address.get(), address.size) == 0 ? 0 : errno;
  is_under_way_ = is_under_way_ || error_ == EINPROGRESS || error_ == EINTR;
  if (is_under_way_) error_ = is_ready(socket_.fd(), POLLOUT) ? pending_error(socket_) : EAGAIN;
  if (error_ == 0) {
    if (!is_connected_to_itself(socket_)) return Progress::connected;
    error_ = ECONNREFUSED;
  }
  if (error_ == EAGAIN && !until_.value_or(deadline).passed()) return Progress::pending;
  if (error_ == EAGAIN) error_ = ETIMEDOUT;
  socket_ = Socket();
  return Progress::failed;
}

Woken ConnectAttempt::wait(const Deadline& deadline) const {
  if (addresses_.empty()) return wait_for(lookup_->event(), POLLIN, deadline);
  const Deadline until(until_ ? std::min(deadline.at(), until_->at()) : deadline.at());
  if (is_under_way_) return wait_for(socket_.fd(), POLLOUT, until);
  const Deadline next(kNextTryOfAFullSocket);
  const Woken woken = wait_for(-1, 0, next.at() < until.at() ? next : until);
  return woken == Woken::by_deadline ? Woken::by_event : woken;
}

void ConnectAttempt::fail(const Deadline& deadline) const {
  const std::string where = "redis at " + connector_->endpoint().describe();
  if (error_ == ETIMEDOUT && deadline.passed()) {
    throw StoreTimeout("connecting to " + where +
                       " took longer than the timeout; check the server and the network");
  }
  throw StoreUnavailable("cannot connect to " + where + ": " + std::system_category().message(error_) +
                         "; check that the server is running and the address is right");
}

std::unique_ptr<Stream> connect(std::shared_ptr<Connector> connector, const Wait& wait) {
  ConnectAttempt attempt(std::move(connector));
  for (;;) {
    if (std::unique_ptr<Stream> stream = attempt.step(wait.deadline)) return stream;
    if (attempt.wait(wait.deadline) == Woken::by_signal) check_interrupted(wait.interrupted);
  }
}

}  // namespace overlimit::redis::transport
