#include "redis/transport/socket.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

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

Socket::~Socket() {
  if (fd_ >= 0) ::close(fd_);
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

}  // namespace overlimit::redis::transport
