#include "overlimit/errors.hpp"

#include <gtest/gtest.h>

#include <type_traits>

namespace overlimit {
namespace {

static_assert(std::is_base_of_v<std::invalid_argument, InvalidLimit>);
static_assert(!std::is_base_of_v<StoreError, InvalidLimit>);
static_assert(!std::is_base_of_v<StoreError, WaitInterrupted>);
static_assert(std::is_base_of_v<StoreConfigError, CrossSlot>);

template <class Error>
class StoreErrors : public ::testing::Test {};
using AllStoreErrors =
    ::testing::Types<StoreTimeout, StoreUnavailable, ScriptError, StoreConfigError, CrossSlot>;
TYPED_TEST_SUITE(StoreErrors, AllStoreErrors);

TYPED_TEST(StoreErrors, AreStoreErrors) {
  try {
    throw TypeParam("it said no");
  } catch (const StoreError& error) {
    EXPECT_STREQ(error.what(), "it said no");
  }
}

TYPED_TEST(StoreErrors, SayWhetherTheCallMayHaveBeenCharged) {
  EXPECT_FALSE(TypeParam("it said no").maybe_charged());
  EXPECT_TRUE(TypeParam("it said nothing", true).maybe_charged());
}

TYPED_TEST(StoreErrors, SayWhenToAskAgainIfThatIsKnown) {
  EXPECT_EQ(TypeParam("it said no").retry_after(), Duration(0));
  EXPECT_EQ(TypeParam("it said later", false, Duration(250'000)).retry_after(), Duration(250'000));
}

TEST(WaitInterrupted, SaysSo) { EXPECT_STREQ(WaitInterrupted().what(), "the wait was interrupted"); }

}  // namespace
}  // namespace overlimit
