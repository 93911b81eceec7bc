#include "platform/virtual_memory.hpp"

#include <sys/mman.h>

#include <new>

namespace overlimit::platform {
namespace {

// Systems without this flag promise memory that they may not have anyway.
#ifdef MAP_NORESERVE
constexpr int kReserve = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
#else
constexpr int kReserve = MAP_PRIVATE | MAP_ANONYMOUS;
#endif

}  // namespace

void ReleasePages::operator()(std::byte* base) const noexcept { ::munmap(base, bytes); }

Pages reserve_pages(std::size_t bytes) {
  void* const base = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, kReserve, -1, 0);
  if (base == MAP_FAILED) throw std::bad_alloc();
  return Pages(static_cast<std::byte*>(base), ReleasePages{bytes});
}

void prefer_large_pages([[maybe_unused]] void* base, [[maybe_unused]] std::size_t bytes) noexcept {
#if defined(MADV_HUGEPAGE) && !defined(OVERLIMIT_PORTABLE)
  ::madvise(base, bytes, MADV_HUGEPAGE);
#endif
}

}  // namespace overlimit::platform
