#include "redis/transport/backoff.hpp"

#include <algorithm>
#include <random>
#include <utility>

#include "overlimit/forks.hpp"
#include "redis/transport/pause.hpp"

namespace overlimit::redis::transport {
namespace {

/// Seeded anew in a forked child, which would draw its parent's numbers.
std::minstd_rand& random_numbers() {
  thread_local std::uint64_t generation = fork_generation();
  thread_local std::minstd_rand numbers{std::random_device{}()};
  if (std::exchange(generation, fork_generation()) != fork_generation()) numbers.seed(std::random_device{}());
  return numbers;
}

}  // namespace

bool Backoff::pause(const Deadline& deadline, const Interrupted& interrupted) {
  const std::chrono::microseconds duration = jittered(bound_);
  if (duration >= deadline.remaining()) return false;
  bound_ = std::min(2 * bound_, kMostBound);
  transport::pause(duration, interrupted);
  return !deadline.passed();
}

std::chrono::microseconds jittered(std::chrono::microseconds most) {
  using Distribution = std::uniform_int_distribution<std::chrono::microseconds::rep>;
  return std::chrono::microseconds(Distribution(0, most.count())(random_numbers()));
}

}  // namespace overlimit::redis::transport
