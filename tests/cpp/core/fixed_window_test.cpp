#include "overlimit/algorithms/fixed_window.hpp"

#include <gtest/gtest.h>

#include "../limits.hpp"
#include "overlimit/errors.hpp"

namespace overlimit {
namespace {

using testing::fixed_window;
using testing::kMinute;

TEST(FixedWindow, IsBuiltFromNumbersInRangeOnly) {
  EXPECT_NO_THROW(fixed_window(0, 1));
  EXPECT_NO_THROW(fixed_window(kExact - 1, kMaxPeriod));
  EXPECT_THROW(fixed_window(-1, kMinute), InvalidLimit);
  EXPECT_THROW(fixed_window(kExact, kMinute), InvalidLimit);
  EXPECT_THROW(fixed_window(3, 0), InvalidLimit);
  EXPECT_THROW(fixed_window(3, -1), InvalidLimit);
  EXPECT_THROW(fixed_window(3, kMaxPeriod + 1), InvalidLimit);
  EXPECT_THROW(FixedWindow::make(std::to_array<std::int64_t>({3, kMinute, 2})), InvalidLimit);
  EXPECT_THROW(FixedWindow::make(std::to_array<std::int64_t>({3, kMinute, 3})), InvalidLimit);
  EXPECT_THROW(FixedWindow::make(std::to_array<std::int64_t>({3, kMinute, -1})), InvalidLimit);
  EXPECT_THROW(FixedWindow::make(std::to_array<std::int64_t>({3, kMinute})), InvalidLimit);
}

}  // namespace
}  // namespace overlimit
