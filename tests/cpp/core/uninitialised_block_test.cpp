#include "overlimit/uninitialised_block.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <new>

#include "../examples.hpp"

namespace overlimit {
namespace {

TEST(UninitialisedBlocks, AreWritableFromEndToEnd) {
  for (const std::size_t bytes : {std::size_t{1}, (std::size_t{5} << 20) + 3}) {
    const UninitialisedBlock block = uninitialised_block(bytes);
    for (std::size_t at = 0; at < bytes; ++at) block[at] = std::byte(at);
    EXPECT_EQ(block[bytes - 1], std::byte(bytes - 1));
  }
  EXPECT_NE(uninitialised_block(0), nullptr);
}

TEST(UninitialisedBlocks, ThatAreTooLargeAreBadAllocs) {
  if (testing::kSanitized) GTEST_SKIP() << "sanitizers end the process instead";
  EXPECT_THROW((void)uninitialised_block(SIZE_MAX / 4), std::bad_alloc);
}

}  // namespace
}  // namespace overlimit
