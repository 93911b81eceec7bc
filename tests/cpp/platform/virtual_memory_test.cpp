#include "platform/virtual_memory.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <new>
#include <span>

namespace overlimit::platform {
namespace {

TEST(Pages, AreZeroedAndWritableFromEndToEnd) {
  const Pages pages = reserve_pages(100'000);
  const std::span<std::byte> bytes(pages.get(), 100'000);
  EXPECT_TRUE(std::ranges::all_of(bytes, [](std::byte byte) { return byte == std::byte{0}; }));
  std::ranges::fill(bytes, std::byte{1});
  EXPECT_EQ(bytes.back(), std::byte{1});
}

TEST(Pages, AreAlignedForEverythingInThem) {
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(reserve_pages(1).get()) % 4096, 0U);
}

TEST(Pages, AreReservedAndNotUsed) {
  const Pages pages = reserve_pages(std::size_t{1} << 36);
  pages[(std::size_t{1} << 36) - 1] = std::byte{7};
  EXPECT_EQ(pages[(std::size_t{1} << 36) - 1], std::byte{7});
}

TEST(Pages, ThatAreTooManyAreABadAlloc) { EXPECT_THROW((void)reserve_pages(SIZE_MAX / 2), std::bad_alloc); }

}  // namespace
}  // namespace overlimit::platform
