// What the table needs of memory that others may share: to find damage, to write in order, to load in time.
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

/// Keeps the compiler from moving writes across. What a killed process has executed was in order anyway.
inline void in_order() { std::atomic_signal_fence(std::memory_order_seq_cst); }

/// Asks the processor to load a cache line as it does before a write, so that another processor that wrote it
/// last gives it up at once. For any x86-64 processor, compilers would only ask for what a read needs.
inline void prefetch_for_writing(const void* place) {
#if defined(__x86_64__)
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(place)));
#else
  __builtin_prefetch(place, 1);
#endif
}

}  // namespace overlimit::table
