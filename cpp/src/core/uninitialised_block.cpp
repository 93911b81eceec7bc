#include "overlimit/uninitialised_block.hpp"

#include <algorithm>
#include <new>

#include "platform/virtual_memory.hpp"

namespace overlimit {

UninitialisedBlock uninitialised_block(std::size_t bytes) {
  using platform::kLargePage;
  const bool is_large = bytes >= 2 * kLargePage;
  void* const block = is_large
                          ? std::aligned_alloc(kLargePage, (bytes + kLargePage - 1) / kLargePage * kLargePage)
                          : std::malloc(std::max<std::size_t>(1, bytes));
  if (block == nullptr) throw std::bad_alloc();
  if (is_large) platform::prefer_large_pages(block, bytes);
  return UninitialisedBlock(static_cast<std::byte*>(block));
}

}  // namespace overlimit
