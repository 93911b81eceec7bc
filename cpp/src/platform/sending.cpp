#include "platform/sending.hpp"

#include <sys/socket.h>

#if defined(MSG_NOSIGNAL) && !defined(OVERLIMIT_PORTABLE)

namespace overlimit::platform {

ssize_t send(int fd, std::string_view bytes) noexcept {
  return ::send(fd, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
}

}  // namespace overlimit::platform

#else

#include <pthread.h>

#include <cerrno>
#include <csignal>

#include "overlimit/non_copyable.hpp"

namespace overlimit::platform {
namespace {

/// Keeps SIGPIPE from this thread, and takes away the one that a send has raised; errno stays.
class NoSigpipe : NonCopyable {
 public:
  NoSigpipe() noexcept {
    sigset_t pending;
    ::sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    sigemptyset(&sigpipe_);
    sigaddset(&sigpipe_, SIGPIPE);
    ::pthread_sigmask(SIG_BLOCK, &sigpipe_, &before_);
  }
  ~NoSigpipe() {
    const int error = errno;
    sigset_t pending;
    ::sigpending(&pending);
    int taken = 0;
    if (!was_pending_ && sigismember(&pending, SIGPIPE) == 1) ::sigwait(&sigpipe_, &taken);
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    errno = error;
  }

 private:
  bool was_pending_ = false;
  sigset_t sigpipe_{};
  sigset_t before_{};
};

}  // namespace

ssize_t send(int fd, std::string_view bytes) noexcept {
  const NoSigpipe guard;
  return ::send(fd, bytes.data(), bytes.size(), MSG_DONTWAIT);
}

}  // namespace overlimit::platform

#endif
