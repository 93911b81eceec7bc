// What a thread waits on for another thread.
#pragma once

#include <atomic>
#include <cstdint>

#include "redis/transport/wait.hpp"

namespace overlimit::redis::transport {

/// Rung by any thread, heard by one. A ring that nobody waits for is kept; several are one. Not a condition
/// variable, since those don't tell of signals.
class Bell {
 public:
  Bell() = default;
  Bell(const Bell&) = delete;
  Bell& operator=(const Bell&) = delete;

  void ring() noexcept;
  /// Looks at least once, even when the deadline has passed.
  [[nodiscard]] Woken wait(const Deadline& deadline) noexcept;
  /// Forgets a ring that came too late.
  void hush() noexcept { rung_.store(0, std::memory_order_relaxed); }

 private:
  std::atomic<std::uint32_t> rung_{0};
};

}  // namespace overlimit::redis::transport
