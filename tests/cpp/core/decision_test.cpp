#include "overlimit/decision.hpp"

#include <gtest/gtest.h>

#include <array>

#include "../columns.hpp"
#include "../limits.hpp"

namespace overlimit {
namespace {

// What the oracle seldom reaches: rows that are equal in all, and delays that differ.
class Folding : public ::testing::Test {
 protected:
  Decision folded() { return fold(std::array{Charge{&policy, "x"}, Charge{&policy, "y"}}, columns.rows()); }
  // Their canonical order is the reverse of the order given.
  const CompiledPolicy policy{"p", {testing::token_bucket(9, 1), testing::fixed_window(9, testing::kMinute)}};
  testing::Columns columns{4};
};

TEST_F(Folding, BindsToTheFirstLimitGivenOfTheFirstIdentifierAmongEqualsInAll) {
  EXPECT_EQ(folded().binding_row, 1U);
  columns.remaining = {9, 10, 9, 9};
  EXPECT_EQ(folded().binding_row, 0U) << "identifiers count before limits";
}

TEST_F(Folding, DelaysForTheLongestDelay) {
  columns.delay = testing::durations({3, 8, 5, 0});
  EXPECT_EQ(folded().delay, 8);
}

}  // namespace
}  // namespace overlimit
