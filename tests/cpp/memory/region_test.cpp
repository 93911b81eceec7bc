#include "memory/region.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <span>

namespace overlimit::memory {
namespace {

TEST(Region, IsZeroedAndWritableFromEndToEnd) {
  const Region region(100'000);
  const std::span<std::byte> bytes(region.data(), 100'000);
  EXPECT_TRUE(std::ranges::all_of(bytes, [](std::byte byte) { return byte == std::byte{0}; }));
  std::ranges::fill(bytes, std::byte{1});
  EXPECT_EQ(bytes.back(), std::byte{1});
}

TEST(Region, IsAlignedForEverythingInIt) {
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(Region(1).data()) % 4096, 0U);
}

TEST(Region, ReservesMoreThanItUses) {
  const Region region(std::size_t{1} << 36);
  region.data()[(std::size_t{1} << 36) - 1] = std::byte{7};
  EXPECT_EQ(region.data()[(std::size_t{1} << 36) - 1], std::byte{7});
}

TEST(Region, ThatIsTooLargeIsABadAlloc) { EXPECT_THROW(Region{SIZE_MAX / 2}, std::bad_alloc); }

}  // namespace
}  // namespace overlimit::memory
