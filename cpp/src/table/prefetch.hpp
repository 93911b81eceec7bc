// Loading what a call will write before it needs it.
#pragma once

namespace overlimit::table {

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
