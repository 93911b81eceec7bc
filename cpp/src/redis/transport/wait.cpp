#include "redis/transport/wait.hpp"

#include <poll.h>

#include <cerrno>
#include <chrono>
#include <ctime>
#include <new>

#include "overlimit/errors.hpp"

namespace overlimit::redis::transport {
namespace {

timespec timespec_of(Deadline::Clock::duration duration) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(duration);
  const auto nanoseconds = std::chrono::duration_cast<std::chrono::nanoseconds>(duration - seconds);
  return {static_cast<std::time_t>(seconds.count()), static_cast<long>(nanoseconds.count())};
}

}  // namespace

bool wait_for(int fd, short events, const Deadline& deadline, const Interrupted& interrupted) {
  for (;;) {
    pollfd polled{fd, events, 0};
    const timespec remaining = timespec_of(deadline.remaining());
    const int ready = ::ppoll(&polled, 1, &remaining, nullptr);
    if (ready >= 0) return ready > 0;
    if (errno != EINTR) throw std::bad_alloc();
    if (interrupted && interrupted()) throw WaitInterrupted();
  }
}

}  // namespace overlimit::redis::transport
