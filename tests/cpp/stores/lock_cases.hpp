// Locks by hand.
#pragma once

#include "store_cases.hpp"

namespace overlimit::testing {

class Locks : public StoreCase {
 protected:
  const CompiledPolicy policy{"p", {fixed_window(5, kMinute), sliding_window(5, kSecond)}};
};

TEST_P(Locks, ShowInEveryPairOfTheIdentifier) {
  hit(policy, {"a"}, 0, 2);
  lock(policy, {"a"}, 0, 2 * kSecond);
  const Answer answer = hit(policy, {"a", "b"}, 500'000);
  EXPECT_EQ(answer.status(), Status::locked);
  EXPECT_EQ(answer.decision.remaining, 0);
  EXPECT_EQ(answer.decision.retry_after, 1'500'000);
  EXPECT_EQ(answer.columns.status, (std::vector{Status::locked, Status::locked, Status::ok, Status::ok}));
  EXPECT_EQ(answer.columns.remaining, (std::vector<std::int64_t>{0, 0, 5, 5}));
  EXPECT_EQ(answer.columns.retry_after, (std::vector<Micros>{1'500'000, 1'500'000, 0, 0}));
  EXPECT_EQ(answer.columns.reset_after, (std::vector<Micros>{59'500'000, 1'500'000, 0, 0}));
}

TEST_P(Locks, ChargeNobody) {
  lock(policy, {"a"}, 0, kSecond);
  hit(policy, {"b", "a"}, 0);
  EXPECT_EQ(left(policy, "b", 0), 5);
  EXPECT_EQ(left(policy, "a", kSecond), 5);
}

TEST_P(Locks, LeaveWhatWasSpentAsItIs) {
  hit(policy, {"a"}, 0, 3);
  lock(policy, {"a"}, 0, 2 * kSecond);
  EXPECT_EQ(peek(policy, {"a"}, 2 * kSecond, 0).columns.remaining, (std::vector<std::int64_t>{2, 5}));
}

TEST_P(Locks, OfSeveralIdentifiersAreSetAtOnce) {
  lock(policy, {"a", "b"}, 0, kSecond);
  EXPECT_EQ(hit(policy, {"a"}, 5).status(), Status::locked);
  EXPECT_EQ(hit(policy, {"b"}, 5).status(), Status::locked);
  EXPECT_TRUE(hit(policy, {"c"}, 5).allowed());
}

TEST_P(Locks, HoldForTheirPolicyAlone) {
  lock(policy, {"a"}, 0, kSecond);
  EXPECT_TRUE(hit(CompiledPolicy("q", {fixed_window(5, kMinute)}), {"a"}, 5).allowed());
}

TEST_P(Locks, KeepTheLevelOfAPenalty) {
  const CompiledPolicy strict("p", {fixed_window(1, kMinute)},
                              Penalty{{kSecond, 10 * kSecond}, false, kMinute});
  hit(strict, {"a"}, 0, 1);
  EXPECT_EQ(hit(strict, {"a"}, 0).decision.reset_after, kMinute);
  lock(strict, {"a"}, 10, 20);
  EXPECT_EQ(hit(strict, {"a"}, 29).status(), Status::locked);
  const Answer violation = hit(strict, {"a"}, 30);
  EXPECT_EQ(violation.status(), Status::over);
  EXPECT_EQ(hit(strict, {"a"}, 30 + 10 * kSecond - 1).status(), Status::locked) << "the second level";
  EXPECT_EQ(hit(strict, {"a"}, 30 + 10 * kSecond).status(), Status::over);
}

TEST_P(Locks, AreNoLevelOfAPenalty) {
  const CompiledPolicy strict("p", {fixed_window(1, kMinute)}, Penalty{{kSecond, 10 * kSecond}});
  lock(strict, {"a"}, 0, 20);
  hit(strict, {"a"}, 20);
  EXPECT_EQ(hit(strict, {"a"}, 20).status(), Status::over);
  EXPECT_EQ(hit(strict, {"a"}, 20 + kSecond - 1).status(), Status::locked);
  EXPECT_EQ(hit(strict, {"a"}, 20 + kSecond).status(), Status::over) << "the first level is over";
}

TEST_P(Locks, CountFromTheirStartWhenTheClockGoesBack) {
  lock(policy, {"a"}, kSecond, 1'000);
  EXPECT_EQ(hit(policy, {"a"}, 10).decision.retry_after, 1'000);
  EXPECT_EQ(hit(policy, {"a"}, kSecond + 1).decision.retry_after, 999);
}

TEST_P(Locks, LastAsLongAsTimeDoes) {
  lock(policy, {"a"}, kMaxTime - 1, kMaxPeriod);
  EXPECT_EQ(hit(policy, {"a"}, kMaxTime - 1).decision.retry_after, kMaxPeriod);
}

}  // namespace overlimit::testing
