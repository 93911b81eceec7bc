// What the table needs of memory that others may share: to find damage, to write in order.
#pragma once

#include <atomic>
#include <exception>

namespace overlimit::table {

/// Thrown when a shard's memory contradicts itself, before anything of it is used.
class Damaged : public std::exception {
 public:
  [[nodiscard]] const char* what() const noexcept override { return "the shared memory is damaged"; }
};

inline void require(bool is_sound) {
  if (!is_sound) [[unlikely]]
    throw Damaged();
}

/// Keeps the compiler from moving writes across. That is enough on every processor: who finds a process dead
/// has heard so from the kernel, and sees all that it has executed and nothing else (docs/architecture.md).
inline void in_order() { std::atomic_signal_fence(std::memory_order_seq_cst); }

}  // namespace overlimit::table
