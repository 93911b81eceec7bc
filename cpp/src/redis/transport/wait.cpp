#include "redis/transport/wait.hpp"

#include <poll.h>

#include <cerrno>
#include <chrono>
#include <ctime>
#include <new>

namespace overlimit::redis::transport {
namespace {

timespec timespec_of(Deadline::Clock::duration duration) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(duration);
  const auto nanoseconds = std::chrono::duration_cast<std::chrono::nanoseconds>(duration - seconds);
  return {static_cast<std::time_t>(seconds.count()), static_cast<long>(nanoseconds.count())};
}

}  // namespace

Woken wait_for(int fd, short events, const Deadline& deadline) {
  pollfd polled{fd, events, 0};
  const Deadline end = end_of_wait(deadline);
  const timespec remaining = timespec_of(end.remaining());
  const int ready = ::ppoll(&polled, 1, &remaining, nullptr);
  if (ready >= 0) return ready > 0 ? Woken::by_event : at_end_of_wait(end, deadline);
  if (errno != EINTR) throw std::bad_alloc();
  return Woken::by_signal;
}

bool is_ready(int fd, short events) noexcept {
  pollfd polled{fd, events, 0};
  return ::poll(&polled, 1, 0) > 0;
}

}  // namespace overlimit::redis::transport
