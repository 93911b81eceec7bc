// Waiting for many descriptors and an instant, by watching one descriptor.
#pragma once

#include <chrono>
#include <cstddef>
#include <span>

#include "overlimit/non_copyable.hpp"

#if !defined(__linux__) || defined(OVERLIMIT_PORTABLE)
#include <memory>
#endif

namespace overlimit::platform {

/// Descriptors, each of which is watched until it is ready once, and one instant. Not thread-safe.
class Readiness : NonCopyable {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  /// Throws std::system_error when the system has no descriptors left.
  Readiness();
  ~Readiness();
  /// Becomes readable when one of the descriptors is ready or the instant has come, and stays so until
  /// take_ready() was called. It is closed in no forked child.
  [[nodiscard]] int fd() const noexcept;
  /// Reports this descriptor once, when one of these poll(2) events or its failure has come. A descriptor
  /// that is watched already is watched for these events instead. Throws std::bad_alloc.
  void watch(int fd, short events);
  /// There is one instant: the last one that was given.
  void wake_at(TimePoint instant) noexcept;
  /// Returns how many descriptors are ready, with those at the front of `fds`; others are reported next time.
  [[nodiscard]] std::size_t take_ready(std::span<int> fds) noexcept;

 private:
#if defined(__linux__) && !defined(OVERLIMIT_PORTABLE)
  int epoll_ = -1;
  int timer_ = -1;
#else
  class Poller;
  std::unique_ptr<Poller> poller_;
#endif
};

}  // namespace overlimit::platform
