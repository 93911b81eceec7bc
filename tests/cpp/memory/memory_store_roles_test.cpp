// Charges that watch, and charges that count refusals.
#include <gtest/gtest.h>

#include <vector>

#include "../calls.hpp"
#include "../limits.hpp"
#include "overlimit/memory_store.hpp"

namespace overlimit {
namespace {

using testing::Answer;
using testing::ask;
using testing::fixed_window;
using testing::kMinute;
using testing::peek;

class Roles : public ::testing::Test {
 protected:
  Answer call(std::vector<Charge> charges, Micros now = 0, Mode mode = Mode::consume) {
    return ask(store, {charges, mode, now, true});
  }
  std::int64_t left(const CompiledPolicy& policy, Micros now = 0) {
    return peek(store, policy, {"x"}, now, 0).decision.remaining;
  }

  MemoryStore store;
  const CompiledPolicy rule{"rule", {fixed_window(2, kMinute)}};
  const CompiledPolicy draft{"draft", {fixed_window(1, kMinute)}};
  const CompiledPolicy meta{"meta", {fixed_window(2, 2 * kMinute)}};
  const Charge enforced{&rule, "x", 1, Role::enforce};
  const Charge shadow{&draft, "x", 1, Role::shadow};
  const Charge on_refusal{&meta, "x", 1, Role::on_refusal};
};

TEST_F(Roles, AShadowNeverRefuses) {
  EXPECT_TRUE(call({shadow, enforced}).allowed());
  const Answer second = call({shadow, enforced});
  EXPECT_TRUE(second.allowed());
  EXPECT_EQ(second.columns.status[0], Status::over) << "but it tells that it would have";
  EXPECT_EQ(left(rule), 0);
  EXPECT_EQ(left(draft), 0);
}

TEST_F(Roles, AShadowIsChargedOnlyIfTheEnforcedOnesPass) {
  call({enforced});
  call({enforced});
  EXPECT_FALSE(call({enforced, shadow}).allowed());
  EXPECT_EQ(left(draft), 1);
}

TEST_F(Roles, AShadowThatIsNeverAdmittedHoldsNobodyUp) {
  EXPECT_TRUE(call({{&draft, "x", INT64_MAX, Role::shadow}, enforced}).allowed());
  EXPECT_EQ(left(rule), 1);
  EXPECT_EQ(left(draft), 1);
}

TEST_F(Roles, ARefusalIsCountedByTheMetaLimitOnce) {
  EXPECT_TRUE(call({enforced, on_refusal}).allowed());
  EXPECT_TRUE(call({enforced, on_refusal}).allowed());
  EXPECT_EQ(left(meta), 2) << "nothing was refused yet";
  EXPECT_EQ(call({enforced, on_refusal}).decision.retry_after, kMinute);
  EXPECT_EQ(left(meta), 1);
  EXPECT_EQ(left(rule), 0);
}

TEST_F(Roles, ANeverIsNoRefusalToCount) {
  EXPECT_EQ(call({{&rule, "x", 3, Role::enforce}, on_refusal}).status(), Status::never);
  EXPECT_EQ(left(meta), 2);
}

TEST_F(Roles, AMetaLimitThatIsUsedUpRefusesWhateverTheRuleSays) {
  for (int i = 0; i < 4; ++i) call({enforced, on_refusal});
  EXPECT_EQ(left(meta), 0);
  const Answer locked_out = call({enforced, on_refusal}, kMinute);
  EXPECT_EQ(locked_out.status(), Status::over);
  EXPECT_EQ(locked_out.decision.binding_row, 1U);
  EXPECT_EQ(locked_out.decision.retry_after, kMinute);
  EXPECT_EQ(left(rule, kMinute), 2) << "and nothing is charged";
  EXPECT_TRUE(call({enforced, on_refusal}, 2 * kMinute).allowed());
}

TEST_F(Roles, TheRefusalThatUsesUpTheMetaLimitTellsToWaitForThatToo) {
  for (int i = 0; i < 3; ++i) call({enforced, on_refusal});
  const Answer last = call({enforced, on_refusal});
  EXPECT_EQ(last.decision.retry_after, 2 * kMinute);
  EXPECT_EQ(last.decision.binding_row, 0U);
  EXPECT_FALSE(call({enforced, on_refusal}, 2 * kMinute - 1).allowed());
  EXPECT_TRUE(call({enforced, on_refusal}, 2 * kMinute).allowed());
}

TEST_F(Roles, APeekOrACostOfZeroCountsNothing) {
  call({enforced});
  call({enforced});
  EXPECT_FALSE(call({enforced, on_refusal}, 0, Mode::peek).allowed());
  EXPECT_TRUE(call({{&rule, "x", 0, Role::enforce}, on_refusal}).allowed());
  EXPECT_EQ(left(meta), 2);
}

}  // namespace
}  // namespace overlimit
