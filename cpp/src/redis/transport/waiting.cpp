#include "redis/transport/waiting.hpp"

#include <poll.h>

#include <cerrno>
#include <new>
#include <random>
#include <utility>

#include "overlimit/forks.hpp"
#include "platform/descriptors.hpp"

namespace overlimit::redis::transport {
namespace {

/// Seeded again in a forked child, which would draw the same numbers as its parent.
std::minstd_rand& random_numbers() {
  thread_local std::uint64_t generation = fork_generation();
  thread_local std::minstd_rand numbers{std::random_device{}()};
  if (std::exchange(generation, fork_generation()) != fork_generation()) numbers.seed(std::random_device{}());
  return numbers;
}

}  // namespace

Woken wait_for(int fd, short events, const Deadline& deadline) {
  if (Fibers* const fibers = Fibers::current()) {
    if (!deadline.passed()) return fibers->wait(fd, events, deadline.at());
    return is_ready(fd, events) ? Woken::by_event : Woken::by_deadline;
  }
  pollfd polled{fd, events, 0};
  const Deadline end = end_of_wait(deadline);
  const int ready = platform::poll(polled, end.remaining());
  if (ready >= 0) return ready > 0 ? Woken::by_event : at_end_of_wait(end, deadline);
  if (errno != EINTR) throw std::bad_alloc();
  return Woken::by_signal;
}

bool is_ready(int fd, short events) noexcept {
  pollfd polled{fd, events, 0};
  return ::poll(&polled, 1, 0) > 0;
}

void check_interrupted(const Interrupted& interrupted) {
  if (const Fibers* const fibers = Fibers::current(); fibers != nullptr && fibers->is_interrupted()) {
    throw WaitInterrupted();
  }
  if (!interrupted) return;
  const std::uint64_t generation = fork_generation();
  const bool ends = interrupted();
  if (generation != fork_generation()) {
    throw StoreUnavailable("the process forked during a call to redis; its parent goes on with that call",
                           true);
  }
  if (ends) throw WaitInterrupted();
}

bool await(int fd, short events, const Wait& wait) {
  for (;;) {
    const Woken woken = wait_for(fd, events, wait.deadline);
    if (woken != Woken::by_signal) return woken == Woken::by_event;
    check_interrupted(wait.interrupted);
  }
}

void pause(Deadline::Clock::duration duration, const Interrupted& interrupted) {
  (void)await(-1, 0, {Deadline(Deadline::Clock::now() + duration), interrupted});
}

bool Backoff::pause(const Wait& wait) {
  const std::chrono::microseconds duration = jittered(bound_);
  const Deadline::Clock::duration remaining = wait.deadline.remaining();
  if (!reserve_) reserve_ = std::min<Deadline::Clock::duration>(remaining / kShareOfReserve, kMostReserve);
  if (remaining <= duration + *reserve_) return false;
  bound_ = std::min(2 * bound_, kMostBound);
  transport::pause(duration, wait.interrupted);
  return wait.deadline.remaining() > *reserve_;
}

std::chrono::microseconds jittered(std::chrono::microseconds most) {
  using Distribution = std::uniform_int_distribution<std::chrono::microseconds::rep>;
  return std::chrono::microseconds(Distribution(0, most.count())(random_numbers()));
}

}  // namespace overlimit::redis::transport
