// Memory from the system, page by page.
#pragma once

#include <cstddef>

namespace overlimit::platform {

/// Address space whose pages become real when they are first touched, all zeros; nullptr when the system
/// refuses.
[[nodiscard]] void* reserve_pages(std::size_t bytes) noexcept;
void release_pages(void* base, std::size_t bytes) noexcept;

/// Has memory that begins at such a page be of large pages, where the system has a say in that.
inline constexpr std::size_t kLargePage = std::size_t{2} << 20;
void prefer_large_pages(void* base, std::size_t bytes) noexcept;

}  // namespace overlimit::platform
