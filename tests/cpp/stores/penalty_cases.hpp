// Locks that go with a policy: who is over a limit is locked for a while.
#pragma once

#include "store_cases.hpp"

namespace overlimit::testing {

// One in ten seconds; one second for the first violation, then four, then nine.
class Penalties : public StoreCase {
 protected:
  static constexpr Micros kTen = 10 * kSecond;
  const CompiledPolicy policy{"p", {fixed_window(1, kTen)}, Penalty{{kSecond, 4 * kSecond, 9 * kSecond}}};
  const CompiledPolicy extending{"e", {fixed_window(1, kTen)}, Penalty{{kSecond, 4 * kSecond}, true}};
};

TEST_P(Penalties, AreTheOnlyThingARefusalWrites) {
  const CompiledPolicy two("two", {fixed_window(1, kTen), sliding_log(9, kTen)}, Penalty{{kSecond}});
  hit(two, {"a"}, 0);
  for (int i = 0; i < 3; ++i) hit(two, {"a", "b"}, 100);
  EXPECT_EQ(peek(two, {"a"}, 2 * kSecond, 0).columns.remaining, (std::vector<std::int64_t>{0, 8}));
  EXPECT_EQ(peek(two, {"b"}, 100, 0).columns.remaining, (std::vector<std::int64_t>{1, 9}));
}

TEST_P(Penalties, AreNotForShadows) {
  const std::vector<Charge> charges{{&extending, "e", 1}, {&policy, "a", 1, Role::shadow}};
  hit(policy, {"a"}, 0);
  EXPECT_TRUE(call(charges, 0).allowed());
  EXPECT_FALSE(call(charges, 0).allowed());
  EXPECT_EQ(peek(policy, {"a"}, 0, 0).status(), Status::ok);
}

TEST_P(Penalties, LockWhoUsesUpAMetaLimit) {
  const CompiledPolicy rule("rule", {fixed_window(1, kTen)});
  const CompiledPolicy meta("meta", {fixed_window(1, kTen)}, Penalty{{kMinute}});
  const std::vector<Charge> charges{{&rule, "a", 1}, {&meta, "a", 1, Role::on_refusal}};
  EXPECT_TRUE(call(charges, 0).allowed());
  EXPECT_EQ(call(charges, 0).status(), Status::over) << "which is counted";
  EXPECT_EQ(peek(meta, {"a"}, 0, 0).status(), Status::ok);
  const Answer second = call(charges, 0);
  EXPECT_EQ(second.status(), Status::over);
  EXPECT_EQ(second.decision.retry_after, kMinute);
  EXPECT_EQ(call(charges, kMinute - 1).status(), Status::locked);
  EXPECT_TRUE(call(charges, kMinute).allowed());
}

TEST_P(Penalties, LockTheRuleWhoseRefusalAMetaLimitCounts) {
  const CompiledPolicy meta("meta", {fixed_window(9, kTen)});
  const std::vector<Charge> charges{{&policy, "a", 1}, {&meta, "a", 1, Role::on_refusal}};
  call(charges, 0);
  EXPECT_EQ(call(charges, 0).status(), Status::over);
  EXPECT_EQ(call(charges, 0).status(), Status::locked);
  EXPECT_EQ(left(meta, "a", 0), 8) << "a locked call is no refusal to count";
}

TEST_P(Penalties, HoldForListsWithOtherPenaltiesUnderTheName) {
  hit(policy, {"a"}, 0);
  hit(policy, {"a"}, 0);
  EXPECT_EQ(hit(CompiledPolicy("p", {fixed_window(1, kTen)}), {"a"}, 5).status(), Status::locked);
  EXPECT_EQ(hit(CompiledPolicy("p", {sliding_log(9, kTen)}, Penalty{{5}}), {"a"}, 5).status(),
            Status::locked);
}

TEST_P(Penalties, TakeALevelBeyondTheLastForTheLast) {
  const CompiledPolicy before("f", {fixed_window(1, kMaxPeriod)},
                              Penalty{{1'000, 2'000, 3'000}, false, kSecond});
  const CompiledPolicy after("f", {fixed_window(1, kMaxPeriod)}, Penalty{{500, 700}, false, kSecond});
  hit(before, {"a"}, 0);
  for (const Micros now : {0, 1'000, 3'000}) EXPECT_EQ(hit(before, {"a"}, now).status(), Status::over);
  EXPECT_EQ(hit(after, {"a"}, 5'999).status(), Status::locked);
  EXPECT_EQ(hit(after, {"a"}, 6'000).status(), Status::over);
  EXPECT_EQ(hit(after, {"a"}, 6'699).status(), Status::locked);
  EXPECT_EQ(hit(after, {"a"}, 6'700).status(), Status::over);
}

TEST_P(Penalties, AreNotForWhoWaitsForATurn) {
  const CompiledPolicy queue("q", {leaky_bucket(1, kSecond, 2)}, Penalty{{kMinute}, true});
  const std::vector<Charge> charges{{&queue, "a", 3}};
  const auto wait_for = [&](Micros patience) {
    return ask(*store, {charges, Mode::consume, 0, true, patience});
  };
  EXPECT_EQ(wait_for(kSecond).decision.retry_after, kSecond) << "two seconds are too long";
  EXPECT_TRUE(wait_for(2 * kSecond).allowed());
  EXPECT_EQ(wait_for(kMinute).decision.retry_after, 3 * kSecond) << "the queue is full";
  EXPECT_EQ(peek(queue, {"a"}, 0, 0).status(), Status::ok);
  EXPECT_EQ(hit(queue, {"a"}, 0, 3).decision.retry_after, kMinute);
  EXPECT_EQ(ask(*store, {charges, Mode::consume, kSecond, true, kMinute}).decision.retry_after,
            kMinute - kSecond)
      << "nor does it extend a lock";
}

}  // namespace overlimit::testing
