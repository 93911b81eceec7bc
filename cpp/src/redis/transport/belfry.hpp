// What threads wait on for other threads.
#pragma once

#include <atomic>
#include <cstdint>

#include "redis/transport/wait.hpp"

namespace overlimit::redis::transport {

/// Bells that hang together, so that one system call rings several of them. Whoever waits for one takes note
/// of count() before it looks whether there is anything to wait for, and may be woken for nothing. Not a
/// condition variable, since those don't tell of signals. Thread-safe.
class Belfry {
 public:
  /// A set of bells, one bit each.
  using Bells = std::uint32_t;
  static constexpr unsigned kBells = 32;

  Belfry() = default;
  Belfry(const Belfry&) = delete;
  Belfry& operator=(const Belfry&) = delete;

  /// How often any of them was rung.
  [[nodiscard]] std::uint32_t count() const noexcept { return rung_.load(std::memory_order_acquire); }
  void ring(Bells bells) noexcept;
  /// Until one of these is rung, or any was since that count.
  [[nodiscard]] Woken wait(Bells bells, std::uint32_t since, const Deadline& deadline) noexcept;

 private:
  std::atomic<std::uint32_t> rung_{0};
};

}  // namespace overlimit::redis::transport
