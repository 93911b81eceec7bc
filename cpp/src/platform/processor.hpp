// What one asks of the processor itself.
#pragma once

namespace overlimit::platform {

/// To be called between two looks at a word that another processor is about to change.
inline void pause_briefly() {
#if defined(OVERLIMIT_PORTABLE)
#elif defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Asks to load a cache line as it does before a write, so that another processor that wrote it last gives it
/// up at once. For any x86-64 processor, compilers would only ask for what a read needs.
inline void prefetch_for_writing(const void* place) {
#if defined(__x86_64__) && !defined(OVERLIMIT_PORTABLE)
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(place)));
#else
  __builtin_prefetch(place, 1);
#endif
}

}  // namespace overlimit::platform
