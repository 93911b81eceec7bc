#include "platform/sending.hpp"

#include <sys/socket.h>

namespace overlimit::platform {
namespace {

#if defined(SO_NOSIGPIPE)  // as open_stream_socket() has set it
constexpr int kNoSignal = 0;
#else
constexpr int kNoSignal = MSG_NOSIGNAL;
#endif

}  // namespace

ssize_t send(int fd, std::string_view bytes) noexcept {
  return ::send(fd, bytes.data(), bytes.size(), MSG_DONTWAIT | kNoSignal);
}

}  // namespace overlimit::platform
