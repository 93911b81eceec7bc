#include "redis/transport/socket.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "redis/transport/fork_gate.hpp"

namespace overlimit::redis::transport {
namespace {

#ifndef MSG_NOSIGNAL
#error "overlimit needs MSG_NOSIGNAL: without it a lost connection raises SIGPIPE"
#endif
constexpr int kFlags = MSG_DONTWAIT | MSG_NOSIGNAL;

bool would_block(int error) { return error == EAGAIN || error == EWOULDBLOCK; }

template <typename Attempt>
ssize_t uninterrupted(Attempt attempt) {
  ssize_t result = -1;
  do {
    result = attempt();
  } while (result < 0 && errno == EINTR);
  return result;
}

Transfer transfer_of(ssize_t result) {
  if (result >= 0) return {static_cast<std::size_t>(result), {}, false};
  if (would_block(errno)) return {};
  return {0, {errno, std::system_category()}, false};
}

}  // namespace

Socket Socket::of_this_process(int family) {
  const OutsideForks outside;
  Socket socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (socket.is_open()) socket.listed_ = open_descriptors().add(socket.fd_);
  return socket;
}

Socket::~Socket() {
  if (listed_ == nullptr) {
    if (fd_ >= 0) ::close(fd_);
    return;
  }
  const OutsideForks outside;
  OpenDescriptors::remove(listed_);
  ::close(fd_);
}

Transfer Socket::send(std::string_view bytes) const noexcept {
  return transfer_of(uninterrupted([&] { return ::send(fd_, bytes.data(), bytes.size(), kFlags); }));
}

Transfer Socket::receive(char* buffer, std::size_t size) const noexcept {
  const ssize_t result = uninterrupted([&] { return ::recv(fd_, buffer, size, kFlags); });
  Transfer transfer = transfer_of(result);
  transfer.end = result == 0;
  return transfer;
}

void Socket::wait_at_most(std::chrono::microseconds longest) const noexcept {
  const timeval limit{static_cast<time_t>(longest.count() / 1'000'000),
                      static_cast<suseconds_t>(longest.count() % 1'000'000)};
  ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  ::fcntl(fd_, F_SETFL, ::fcntl(fd_, F_GETFL) & ~O_NONBLOCK);
}

Woken Socket::receive_waiting(char* buffer, std::size_t size, Transfer& transfer) const noexcept {
  const ssize_t result = ::recv(fd_, buffer, size, MSG_NOSIGNAL);
  if (result < 0 && (errno == EINTR || would_block(errno))) return Woken::by_signal;
  transfer = transfer_of(result);
  transfer.end = result == 0;
  return Woken::by_event;
}

void Socket::shut_down() const noexcept { ::shutdown(fd_, SHUT_RDWR); }

}  // namespace overlimit::redis::transport
