// Memory without values, for columns of many rows.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>

namespace overlimit {

struct FreeBlock {
  void operator()(std::byte* bytes) const { std::free(bytes); }
};
using UninitialisedBlock = std::unique_ptr<std::byte[], FreeBlock>;

/// A large one is of large pages, which saves a page fault every few rows.
[[nodiscard]] UninitialisedBlock uninitialised_block(std::size_t bytes);

}  // namespace overlimit
