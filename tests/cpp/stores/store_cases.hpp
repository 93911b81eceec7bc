// What holds for every store, beside tests/vectors and the Python suites that run on each: charges with
// roles, and the longest histories. The tests of each store include these and run them on theirs.
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <memory>
#include <string_view>
#include <vector>

#include "../calls.hpp"
#include "../limits.hpp"

namespace overlimit::testing {

/// Makes an empty store.
using MakeStore = std::unique_ptr<Store> (*)();

class EveryStore : public ::testing::TestWithParam<MakeStore> {
 protected:
  static constexpr Micros kTen = 10 * kSecond;

  Answer hit(const CompiledPolicy& policy, std::initializer_list<std::string_view> identifiers, At now,
             Cost cost = 1) {
    return testing::hit(*store, policy, identifiers, now, cost);
  }
  Answer peek(const CompiledPolicy& policy, At now, Cost cost = 0) {
    return testing::peek(*store, policy, {"a"}, now, cost);
  }
  std::int64_t left(const CompiledPolicy& policy, At now) { return peek(policy, now).decision.remaining; }
  Answer call(const std::vector<Charge>& charges, At now, For patience = kNever) {
    return ask(*store, {charges, Mode::consume, now, true, patience});
  }

  const std::unique_ptr<Store> store{GetParam()()};
};

TEST_P(EveryStore, GivesBackOneForACountedRefusal) {
  const CompiledPolicy rule("rule", {fixed_window(1, kMinute)});
  const CompiledPolicy meta("meta", {fixed_window(3, kMinute)});
  const std::vector<Charge> charges{{&rule, "a", 1}, {&meta, "a", 7, Role::on_refusal}};
  call(charges, 0);
  const Answer refused = call(charges, 0);
  EXPECT_EQ(left(meta, 0), 2);
  store->refund({charges, Mode::consume, At(0), true}, refused.columns.receipt, {});
  EXPECT_EQ(left(meta, 0), 3);
  EXPECT_EQ(left(rule, 0), 0);
}

TEST_P(EveryStore, LocksWhoUsesUpAMetaLimit) {
  const CompiledPolicy rule("rule", {fixed_window(1, kTen)});
  const CompiledPolicy meta("meta", {fixed_window(1, kTen)}, penalty({kMinute}));
  const std::vector<Charge> charges{{&rule, "a", 1}, {&meta, "a", 1, Role::on_refusal}};
  EXPECT_TRUE(call(charges, 0).allowed());
  EXPECT_EQ(call(charges, 0).status(), Status::over) << "which is counted";
  EXPECT_EQ(peek(meta, 0).status(), Status::ok);
  const Answer second = call(charges, 0);
  EXPECT_EQ(second.status(), Status::over);
  EXPECT_EQ(second.decision.retry_after, kMinute);
  EXPECT_EQ(call(charges, kMinute - 1).status(), Status::locked);
  EXPECT_TRUE(call(charges, kMinute).allowed());
}

TEST_P(EveryStore, LocksTheRuleWhoseRefusalAMetaLimitCounts) {
  const CompiledPolicy rule{"p", {fixed_window(1, kTen)}, penalty({kSecond, 4 * kSecond, 9 * kSecond})};
  const CompiledPolicy meta("meta", {fixed_window(9, kTen)});
  const std::vector<Charge> charges{{&rule, "a", 1}, {&meta, "a", 1, Role::on_refusal}};
  call(charges, 0);
  EXPECT_EQ(call(charges, 0).status(), Status::over);
  EXPECT_EQ(call(charges, 0).status(), Status::locked);
  EXPECT_EQ(left(meta, 0), 8) << "a locked call is no refusal to count";
}

TEST_P(EveryStore, PunishesNobodyWhoWaitsForATurn) {
  const CompiledPolicy queue("q", {leaky_bucket(1, kSecond, 2)}, penalty({kMinute}, true));
  const std::vector<Charge> charges{{&queue, "a", 3}};
  EXPECT_EQ(call(charges, 0, kSecond).decision.retry_after, kSecond) << "two seconds are too long";
  EXPECT_TRUE(call(charges, 0, 2 * kSecond).allowed());
  EXPECT_EQ(call(charges, 0, kMinute).decision.retry_after, 3 * kSecond) << "the queue is full";
  EXPECT_EQ(peek(queue, 0).status(), Status::ok);
  EXPECT_EQ(call(charges, 0).decision.retry_after, kMinute);
  EXPECT_EQ(call(charges, kSecond, kMinute).decision.retry_after, kMinute - kSecond)
      << "nor does it extend a lock";
}

TEST_P(EveryStore, LocksForAsLongAsTimeLasts) {
  const CompiledPolicy policy("p", {fixed_window(5, kMinute)});
  store->lock({charges_of(policy, {"a"}, 1), Mode::consume, kMaxTime - 1, true}, kMaxPeriod, {});
  EXPECT_EQ(hit(policy, {"a"}, kMaxTime - 1).decision.retry_after, kMaxPeriod);
}

TEST_P(EveryStore, IsExactForLogsOfTenThousandEntries) {
  const CompiledPolicy policy("p", {sliding_log(10'000, kMinute)});
  for (Micros now = 0; now < 10'000; ++now) ASSERT_TRUE(hit(policy, {"a"}, now).allowed()) << now;
  EXPECT_EQ(hit(policy, {"a"}, 10'000).decision.retry_after, kMinute - 10'000);
  EXPECT_EQ(peek(policy, 10'000, 10'000).decision.retry_after, kMinute - 1);
  EXPECT_FALSE(hit(policy, {"a"}, kMinute - 1).allowed());
  EXPECT_TRUE(hit(policy, {"a"}, kMinute).allowed());
  EXPECT_EQ(left(policy, kMinute + 5'000), 5'000);
  EXPECT_EQ(left(policy, kMinute + 9'999), 9'999) << "all but the latest";
}

TEST_P(EveryStore, IsExactForWindowsOfAllBlocks) {
  const CompiledPolicy policy("p", {sliding_window(5'000, 4'096, 1)});
  for (Micros now = 0; now < 4'097; ++now) ASSERT_TRUE(hit(policy, {"a"}, now).allowed()) << now;
  EXPECT_EQ(left(policy, 4'096), 5'000 - 4'097);
  EXPECT_EQ(left(policy, 4'097), 5'000 - 4'096);
  EXPECT_EQ(peek(policy, 4'096, 5'000).decision.retry_after, 4'097);
}

}  // namespace overlimit::testing
