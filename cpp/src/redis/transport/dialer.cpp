#include "redis/transport/dialer.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "overlimit/errors.hpp"
#include "redis/transport/plain_stream.hpp"
#include "redis/transport/tls_stream.hpp"

namespace overlimit::redis::transport {
namespace {

// A peer that vanished without a word is noticed by the kernel after half a minute at the latest.
constexpr int kKeepaliveIdleSeconds = 15;
constexpr int kKeepaliveIntervalSeconds = 5;
constexpr int kKeepaliveProbes = 3;
constexpr int kUserTimeoutMs = 30'000;

/// A socket, or the errno of why not; ETIMEDOUT also when its deadline passed.
struct Attempt {
  Socket socket;
  int error = 0;
};

Attempt failed(int error) { return {Socket(), error}; }

/// Options tune the connection; one that the system lacks is no reason to fail.
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

/// A port in the ephemeral range on which nobody listens may be given to the connecting socket itself,
/// which then talks to itself.
bool is_connected_to_itself(const Socket& socket) {
  Address local;
  Address peer;
  local.size = peer.size = sizeof local.storage;
  ::getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&local.storage), &local.size);
  ::getpeername(socket.fd(), reinterpret_cast<sockaddr*>(&peer.storage), &peer.size);
  return local.size == peer.size && std::memcmp(&local.storage, &peer.storage, local.size) == 0;
}

int pending_error(const Socket& socket) {
  int error = 0;
  socklen_t size = sizeof error;
  ::getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &error, &size);
  return error;
}

Attempt connect_tcp(const Address& address, const Deadline& deadline, const Interrupted& interrupted) {
  Socket socket(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.is_open()) return failed(errno);
  tune(socket);
  if (::connect(socket.fd(), address.get(), address.size) != 0) {
    if (errno != EINPROGRESS && errno != EINTR) return failed(errno);
    if (!wait_for(socket.fd(), POLLOUT, deadline, interrupted)) return failed(ETIMEDOUT);
    if (const int error = pending_error(socket); error != 0) return failed(error);
  }
  if (is_connected_to_itself(socket)) return failed(ECONNREFUSED);
  return {std::move(socket), 0};
}

/// The time that a blocking connect() may take. Zero would be for ever.
void limit_connect(const Socket& socket, const Deadline& deadline) {
  const auto left = std::chrono::duration_cast<std::chrono::microseconds>(deadline.remaining()).count() + 1;
  const timeval limit{static_cast<time_t>(left / 1'000'000), static_cast<suseconds_t>(left % 1'000'000)};
  ::setsockopt(socket.fd(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

/// Blocking, since poll() cannot wait for a place in the backlog of a unix socket.
Attempt connect_unix(const Address& address, const Deadline& deadline, const Interrupted& interrupted) {
  Socket socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket.is_open()) return failed(errno);
  for (;;) {
    limit_connect(socket, deadline);
    if (::connect(socket.fd(), address.get(), address.size) == 0) return {std::move(socket), 0};
    if (errno == EAGAIN) return failed(ETIMEDOUT);
    if (errno != EINTR) return failed(errno);
    if (interrupted && interrupted()) throw WaitInterrupted();
  }
}

Attempt connect_any(const std::vector<Address>& addresses, const Deadline& deadline,
                    const Interrupted& interrupted) {
  Attempt attempt;
  int left = static_cast<int>(addresses.size());
  for (const Address& address : addresses) {
    attempt = connect_tcp(address, deadline.share(left--), interrupted);
    if (attempt.socket.is_open()) break;
  }
  return attempt;
}

}  // namespace

Dialer::Dialer(Endpoint endpoint)
    : endpoint_(std::move(endpoint)), resolver_(endpoint_.host, endpoint_.port) {}

std::unique_ptr<Stream> Dialer::dial(const Deadline& deadline, const Interrupted& interrupted) {
  if (!is_tls()) return std::make_unique<PlainStream>(connect(deadline, interrupted));
  std::shared_ptr<TlsContext> context = tls_context();
  return std::make_unique<TlsStream>(connect(deadline, interrupted), std::move(context));
}

/// Files that were replaced, as certificates are, are read again once a connection has failed.
std::shared_ptr<TlsContext> Dialer::tls_context() {
  const std::lock_guard lock(mutex_);
  if (!tls_context_ || tls_context_->is_doubted()) tls_context_ = std::make_shared<TlsContext>(endpoint_);
  return tls_context_;
}

Socket Dialer::connect(const Deadline& deadline, const Interrupted& interrupted) {
  Attempt attempt = endpoint_.unix_path.empty()
                        ? connect_any(resolver_.resolve(deadline, interrupted), deadline, interrupted)
                        : connect_unix(unix_address(endpoint_.unix_path), deadline, interrupted);
  if (attempt.socket.is_open()) return std::move(attempt.socket);
  const std::string where = "redis at " + endpoint_.describe();
  if (attempt.error == ETIMEDOUT && deadline.passed()) {
    throw StoreTimeout("connecting to " + where +
                       " took longer than the timeout; check the server and the network");
  }
  throw StoreUnavailable("cannot connect to " + where + ": " + std::system_category().message(attempt.error) +
                         "; check that the server is running and the address is right");
}

}  // namespace overlimit::redis::transport
