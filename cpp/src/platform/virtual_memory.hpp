// Memory from the system, page by page.
#pragma once

#include <cstddef>
#include <memory>

namespace overlimit::platform {

struct ReleasePages {
  std::size_t bytes;
  void operator()(std::byte* base) const noexcept;
};
using Pages = std::unique_ptr<std::byte[], ReleasePages>;

/// Address space whose pages become real when they are first touched, all zeros. Throws std::bad_alloc when
/// the system refuses.
[[nodiscard]] Pages reserve_pages(std::size_t bytes);

/// Has memory that begins at such a page be of large pages, where the system has a say in that.
inline constexpr std::size_t kLargePage = std::size_t{2} << 20;
void prefer_large_pages(void* base, std::size_t bytes) noexcept;

}  // namespace overlimit::platform
