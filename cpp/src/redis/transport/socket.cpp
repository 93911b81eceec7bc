#include "redis/transport/socket.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <cerrno>

#include "platform/descriptors.hpp"

namespace overlimit::redis::transport {

namespace {

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

Socket Socket::new_stream(int family) {
  Socket socket;
  socket.descriptor_ = OwnDescriptor::opened([family] { return platform::open_stream_socket(family); });
  return socket;
}

Transfer Socket::send(std::string_view bytes) const noexcept {
  return transfer_of(uninterrupted([&] { return platform::send(fd(), bytes); }));
}

Transfer Socket::receive(char* buffer, std::size_t size) const noexcept {
  const ssize_t result = uninterrupted([&] { return ::recv(fd(), buffer, size, MSG_DONTWAIT); });
  Transfer transfer = transfer_of(result);
  transfer.end = result == 0;
  return transfer;
}

void Socket::wait_at_most(std::chrono::microseconds longest) const noexcept {
  const timeval limit{static_cast<time_t>(longest.count() / 1'000'000),
                      static_cast<suseconds_t>(longest.count() % 1'000'000)};
  ::setsockopt(fd(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  ::fcntl(fd(), F_SETFL, ::fcntl(fd(), F_GETFL) & ~O_NONBLOCK);
}

Woken Socket::receive_waiting(char* buffer, std::size_t size, Transfer& transfer) const noexcept {
  const ssize_t result = ::recv(fd(), buffer, size, 0);
  if (result < 0 && (errno == EINTR || would_block(errno))) return Woken::by_signal;
  transfer = transfer_of(result);
  transfer.end = result == 0;
  return Woken::by_event;
}

void Socket::shut_down() const noexcept { ::shutdown(fd(), SHUT_RDWR); }

}  // namespace overlimit::redis::transport
