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

TEST_P(Penalties, LockWhoeverGoesOver) {
  hit(policy, {"a"}, 0);
  const Answer violation = hit(policy, {"a"}, kTen - 200'000);
  EXPECT_EQ(violation.status(), Status::over);
  EXPECT_EQ(violation.decision.retry_after, kSecond) << "not 200 ms, when the window ends";
  EXPECT_EQ(violation.decision.reset_after, kSecond);
  EXPECT_EQ(violation.decision.remaining, 0);
  EXPECT_EQ(hit(policy, {"a"}, kTen + 800'000 - 1).status(), Status::locked);
  EXPECT_TRUE(hit(policy, {"a"}, kTen + 800'000).allowed());
}

TEST_P(Penalties, RetryWhenBothTheLockAndTheLimitLetGo) {
  hit(policy, {"a"}, 0);
  EXPECT_EQ(hit(policy, {"a"}, 0).decision.retry_after, kTen);
  EXPECT_EQ(hit(policy, {"a"}, 500'000).decision.retry_after, kTen - 500'000);
  EXPECT_EQ(hit(policy, {"a"}, 500'000).status(), Status::locked);
}

TEST_P(Penalties, LockEveryPairOfWhoWentOver) {
  const CompiledPolicy two("two", {fixed_window(1, kTen), fixed_window(9, kMinute)}, Penalty{{20 * kSecond}});
  hit(two, {"a"}, 0);
  const Answer violation = hit(two, {"a"}, 0);
  EXPECT_EQ(violation.columns.status, (std::vector{Status::over, Status::over}));
  EXPECT_EQ(violation.columns.remaining, (std::vector<std::int64_t>{0, 0}));
  EXPECT_EQ(violation.columns.retry_after, (std::vector<Micros>{20 * kSecond, 20 * kSecond}));
}

TEST_P(Penalties, LeaveTheOthersOfTheCallFree) {
  hit(policy, {"a"}, 0);
  const Answer violation = hit(policy, {"b", "a"}, 0);
  EXPECT_EQ(violation.columns.status, (std::vector{Status::ok, Status::over}));
  EXPECT_EQ(violation.columns.remaining, (std::vector<std::int64_t>{1, 0}));
  EXPECT_TRUE(hit(policy, {"b"}, 0).allowed());
  EXPECT_EQ(hit(policy, {"a"}, 0).status(), Status::locked);
}

TEST_P(Penalties, GrowWithEveryViolationAndTheLastLevelRepeats) {
  const CompiledPolicy forever("f", {fixed_window(1, kMaxPeriod)}, Penalty{{1'000, 4'000, 9'000}});
  hit(forever, {"a"}, 0);
  Micros now = 0;
  for (const Micros level : {1'000, 4'000, 9'000, 9'000, 9'000}) {
    EXPECT_EQ(hit(forever, {"a"}, now).status(), Status::over);
    EXPECT_EQ(hit(forever, {"a"}, now + level - 1).status(), Status::locked) << level;
    now += level;
  }
}

TEST_P(Penalties, AreForgottenOneLockLaterUnlessToldOtherwise) {
  const CompiledPolicy forever("f", {fixed_window(1, kMaxPeriod)}, Penalty{{1'000, 4'000}});
  hit(forever, {"a"}, 0);
  hit(forever, {"a"}, 0);
  hit(forever, {"a"}, 1'999);
  EXPECT_EQ(hit(forever, {"a"}, 1'999 + 3'999).status(), Status::locked) << "the next level";
  hit(forever, {"b"}, 0);
  hit(forever, {"b"}, 0);
  hit(forever, {"b"}, 2'000);
  EXPECT_EQ(hit(forever, {"b"}, 2'999).status(), Status::locked);
  EXPECT_EQ(hit(forever, {"b"}, 3'000).status(), Status::over) << "the first again";
}

TEST_P(Penalties, AreForgottenAsLateAsTold) {
  const CompiledPolicy lenient("l", {fixed_window(1, kMaxPeriod)}, Penalty{{1'000, 4'000}, false, 0});
  hit(lenient, {"a"}, 0);
  hit(lenient, {"a"}, 0);
  hit(lenient, {"a"}, 1'000);
  EXPECT_EQ(hit(lenient, {"a"}, 2'000).status(), Status::over) << "nothing is remembered";
  const CompiledPolicy strict("s", {fixed_window(1, kMaxPeriod)}, Penalty{{1'000, 4'000}, false, 50'000});
  hit(strict, {"a"}, 0);
  hit(strict, {"a"}, 0);
  hit(strict, {"a"}, 50'999);
  EXPECT_EQ(hit(strict, {"a"}, 50'999 + 3'999).status(), Status::locked);
}

TEST_P(Penalties, AreNotForWhatIsNeverAdmittedCostsNothingOrOnlyLooks) {
  hit(policy, {"a"}, 0);
  EXPECT_EQ(hit(policy, {"a"}, 1, 2).status(), Status::never);
  EXPECT_EQ(hit(policy, {"a"}, 1, 0).status(), Status::ok);
  EXPECT_EQ(peek(policy, {"a"}, 1, 1).status(), Status::over);
  EXPECT_TRUE(peek(policy, {"a"}, 1, 0).allowed()) << "so it is not locked";
}

TEST_P(Penalties, ShowInAPeekAsTheHitWouldSetThem) {
  hit(policy, {"a"}, 0);
  const Answer peeked = peek(policy, {"a", "b"}, kTen - 5);
  EXPECT_EQ(peek(policy, {"a"}, kTen - 5, 0).status(), Status::ok);
  const Answer hitting = hit(policy, {"a", "b"}, kTen - 5);
  EXPECT_EQ(peeked.columns.status, hitting.columns.status);
  EXPECT_EQ(peeked.columns.remaining, hitting.columns.remaining);
  EXPECT_EQ(peeked.columns.retry_after, hitting.columns.retry_after);
  EXPECT_EQ(peeked.columns.reset_after, hitting.columns.reset_after);
  EXPECT_EQ(peeked.columns.retry_after[0], kSecond);
}

TEST_P(Penalties, AreTheOnlyThingARefusalWrites) {
  const CompiledPolicy two("two", {fixed_window(1, kTen), sliding_log(9, kTen)}, Penalty{{kSecond}});
  hit(two, {"a"}, 0);
  for (int i = 0; i < 3; ++i) hit(two, {"a", "b"}, 100);
  EXPECT_EQ(peek(two, {"a"}, 2 * kSecond, 0).columns.remaining, (std::vector<std::int64_t>{0, 8}));
  EXPECT_EQ(peek(two, {"b"}, 100, 0).columns.remaining, (std::vector<std::int64_t>{1, 9}));
}

TEST_P(Penalties, RunOutHoweverOftenSomebodyKnocks) {
  hit(policy, {"a"}, 0);
  hit(policy, {"a"}, kTen - 1);
  for (Micros now = kTen; now < kTen + kSecond - 1; now += 100'000) hit(policy, {"a"}, now);
  EXPECT_TRUE(hit(policy, {"a"}, kTen + kSecond - 1).allowed());
}

TEST_P(Penalties, StartAnewWithEveryHitWhereTheyExtend) {
  hit(extending, {"a"}, 0);
  hit(extending, {"a"}, kTen - 1);
  const Answer knocking = hit(extending, {"a"}, kTen + 500'000);
  EXPECT_EQ(knocking.status(), Status::locked);
  EXPECT_EQ(knocking.decision.retry_after, kSecond);
  EXPECT_EQ(hit(extending, {"a"}, kTen + 1'499'999).status(), Status::locked);
  EXPECT_TRUE(hit(extending, {"a"}, kTen + 2'499'999).allowed());
}

TEST_P(Penalties, ExtendAtTheSameLevelAndOnlyForHitsThatCost) {
  hit(extending, {"a"}, 0);
  hit(extending, {"a"}, 0);
  hit(extending, {"a"}, kSecond);
  EXPECT_EQ(hit(extending, {"a"}, 2 * kSecond).status(), Status::locked) << "the second level, four seconds";
  hit(extending, {"a"}, 5 * kSecond, 0);
  EXPECT_EQ(peek(extending, {"a"}, 5 * kSecond, 1).decision.retry_after, kTen - 5 * kSecond);
  EXPECT_EQ(peek(extending, {"a"}, 6 * kSecond, 0).status(), Status::ok) << "extended at two, until six";
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

TEST_P(Penalties, CountFromTheStartOfTheLockWhenTheClockGoesBack) {
  hit(policy, {"a"}, kSecond);
  hit(policy, {"a"}, kTen);
  EXPECT_EQ(hit(policy, {"a"}, 2 * kSecond).status(), Status::locked);
  EXPECT_EQ(peek(policy, {"a"}, kTen + kSecond - 1, 0).status(), Status::locked);
  EXPECT_EQ(peek(policy, {"a"}, kTen + kSecond, 0).status(), Status::ok);
}

TEST_P(Penalties, AreForgottenByAReset) {
  hit(policy, {"a"}, 0);
  hit(policy, {"a"}, 0);
  reset(policy, "a");
  EXPECT_TRUE(hit(policy, {"a"}, 0).allowed());
  hit(policy, {"a"}, kTen - kSecond);
  EXPECT_TRUE(hit(policy, {"a"}, kTen).allowed()) << "the first level again";
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
