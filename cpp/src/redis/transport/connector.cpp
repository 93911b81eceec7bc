#include "redis/transport/connector.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <system_error>
#include <utility>

#include "overlimit/errors.hpp"
#include "redis/transport/socket.hpp"
#include "redis/transport/tls_stream.hpp"
#include "redis/transport/waiting.hpp"

namespace overlimit::redis::transport {

Connector::Connector(Endpoint endpoint)
    : endpoint_(std::move(endpoint)), resolver_(endpoint_.host, endpoint_.port) {}

std::unique_ptr<Stream> Connector::stream_over(Socket socket) {
  const bool is_tls = endpoint_.tls && endpoint_.unix_path.empty();
  if (!is_tls) return std::make_unique<PlainStream>(std::move(socket));
  return std::make_unique<TlsStream>(std::move(socket), tls_context());
}

/// Reads the files again once a connection has failed, since certificates are renewed.
std::shared_ptr<TlsContext> Connector::tls_context() {
  const std::lock_guard lock(mutex_);
  if (!tls_context_ || tls_context_->is_stale()) tls_context_ = std::make_shared<TlsContext>(endpoint_);
  return tls_context_;
}

namespace {

// The kernel notices a peer that has vanished after half a minute at the latest.
constexpr int kKeepaliveIdleSeconds = 15;
constexpr int kKeepaliveIntervalSeconds = 5;
constexpr int kKeepaliveProbes = 3;
constexpr int kUserTimeoutMs = 30'000;

constexpr std::chrono::milliseconds kNextTryOfAFullSocket{1};

/// An option that the system does not have is no reason to fail.
void set_option(const Socket& socket, int level, int name, int value) {
  ::setsockopt(socket.fd(), level, name, &value, sizeof value);
}

void tune(const Socket& socket) {
  set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
#ifdef __linux__
  set_option(socket, IPPROTO_TCP, TCP_KEEPIDLE, kKeepaliveIdleSeconds);
  set_option(socket, IPPROTO_TCP, TCP_KEEPINTVL, kKeepaliveIntervalSeconds);
  set_option(socket, IPPROTO_TCP, TCP_KEEPCNT, kKeepaliveProbes);
  set_option(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, kUserTimeoutMs);
#endif
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

std::unique_ptr<Stream> ConnectAttempt::step(const Deadline& deadline) {
  if (addresses_.empty() && !find_addresses(deadline)) return nullptr;
  Progress progress = socket_.is_open() ? go_on(deadline) : Progress::failed;
  while (progress == Progress::failed) {
    if (!try_next(deadline)) fail(deadline);
    progress = connect_to(addresses_[tried_ - 1], deadline);
  }
  if (progress == Progress::pending) return nullptr;
  return connector_->stream_over(std::move(socket_));
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
  if (!socket_.is_open()) {
    error_ = errno;
    return Progress::failed;
  }
  if (address.storage.ss_family != AF_UNIX) tune(socket_);
  return go_on(deadline);
}

ConnectAttempt::Progress ConnectAttempt::go_on(const Deadline& deadline) {
  const Address& address = addresses_[tried_ - 1];
  error_ = ::connect(socket_.fd(), address.get(), address.size) == 0 ? 0 : errno;
  is_full_ = error_ == EAGAIN;
  if (error_ == EINPROGRESS || error_ == EALREADY || error_ == EINTR) {
    error_ = is_ready(socket_.fd(), POLLOUT) ? pending_error(socket_) : EAGAIN;
  }
  if (error_ == 0 || error_ == EISCONN) {
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
  if (!is_full_) return wait_for(socket_.fd(), POLLOUT, until);
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
