// Giving back what a call has charged.
#pragma once

#include "store_cases.hpp"

namespace overlimit::testing {

class Refunds : public StoreCase {
 protected:
  const CompiledPolicy policy{"p", {fixed_window(5, kMinute), token_bucket(5, 1)}};
};

TEST_P(Refunds, GiveBackWhatWasChargedToEveryPair) {
  hit(policy, {"a"}, 0, 2);
  const Answer answer = hit(policy, {"a", "b"}, 10, 3);
  refund(policy, {"a", "b"}, answer, 20, 3);
  EXPECT_EQ(peek(policy, {"a", "b"}, 20, 0).columns.remaining, (std::vector<std::int64_t>{3, 3, 5, 5}));
}

TEST_P(Refunds, MoveNoWindow) {
  const Answer answer = hit(policy, {"a"}, 10, 5);
  refund(policy, {"a"}, answer, 20, 5);
  EXPECT_EQ(peek(policy, {"a"}, 30, 0).columns.reset_after[0], kMinute - 20);
}

TEST_P(Refunds, NeverGoBelowNothingHoweverOftenTheyAreAsked) {
  const Answer answer = hit(policy, {"a"}, 0, 3);
  for (int i = 0; i < 3; ++i) refund(policy, {"a"}, answer, 0, 3);
  EXPECT_EQ(peek(policy, {"a"}, 0, 0).columns.remaining, (std::vector<std::int64_t>{5, 5}));
  EXPECT_TRUE(hit(policy, {"a"}, 0, 5).allowed());
  EXPECT_FALSE(hit(policy, {"a"}, 0).allowed());
}

TEST_P(Refunds, DoNothingToAKeyThatWasBornLater) {
  const Answer answer = hit(policy, {"a"}, 0, 3);
  reset(policy, "a");
  hit(policy, {"a"}, 0, 3);
  refund(policy, {"a"}, answer, 0, 3);
  EXPECT_EQ(left(policy, "a", 0), 2);
}

TEST_P(Refunds, DoNothingToAKeyThatIsGone) {
  const Answer answer = hit(policy, {"a"}, 0, 3);
  reset(policy, "a");
  refund(policy, {"a"}, answer, 0, 3);
  EXPECT_EQ(left(policy, "a", 0), 5);
}

TEST_P(Refunds, DoNothingForWhatWasNotCharged) {
  hit(policy, {"a"}, 0, 3);
  const Answer refused = hit(policy, {"a"}, 0, 3);
  const Answer peeked = peek(policy, {"a"}, 0, 1);
  const Answer free = hit(policy, {"a"}, 0, 0);
  refund(policy, {"a"}, refused, 0, 3);
  refund(policy, {"a"}, peeked, 0, 1);
  refund(policy, {"a"}, free, 0, 0);
  EXPECT_EQ(left(policy, "a", 0), 2);
}

TEST_P(Refunds, DoNothingToTheNextWindow) {
  const CompiledPolicy window("w", {fixed_window(5, kMinute)});
  const Answer answer = hit(window, {"a"}, 0, 3);
  hit(window, {"a"}, kMinute, 3);
  refund(window, {"a"}, answer, kMinute, 3);
  EXPECT_EQ(left(window, "a", kMinute), 2);
}

TEST_P(Refunds, GiveBackOnlyWhatHasNotDrainedYet) {
  const CompiledPolicy bucket("b", {token_bucket(5, 1)});
  const Answer answer = hit(bucket, {"a"}, 0, 4);
  hit(bucket, {"a"}, 3 * kSecond, 4);
  refund(bucket, {"a"}, answer, 3 * kSecond, 4);
  EXPECT_EQ(left(bucket, "a", 3 * kSecond), 1) << "three of the four have drained";
}

TEST_P(Refunds, RemoveTheEntryOfALogSoThatOthersLeaveSooner) {
  const CompiledPolicy log("l", {sliding_log(3, kMinute)});
  hit(log, {"a"}, 0);
  const Answer second = hit(log, {"a"}, 10);
  hit(log, {"a"}, 20);
  EXPECT_EQ(peek(log, {"a"}, 30, 2).decision.retry_after, kMinute - 20) << "when two have left";
  refund(log, {"a"}, second, 30);
  EXPECT_EQ(left(log, "a", 30), 1);
  EXPECT_EQ(peek(log, {"a"}, 30, 2).decision.retry_after, kMinute - 30) << "the first alone";
  EXPECT_EQ(peek(log, {"a"}, 30, 3).decision.retry_after, kMinute - 10) << "and now the third";
}

TEST_P(Refunds, TakeFromTheBlockThatWasCharged) {
  const CompiledPolicy sliding("s", {sliding_window(9, 10 * kSecond, kSecond)});
  std::vector<Answer> answers;
  for (int block = 0; block < 9; ++block) answers.push_back(hit(sliding, {"a"}, block * kSecond));
  for (const int block : {3, 0, 8, 5}) refund(sliding, {"a"}, answers[std::size_t(block)], 9 * kSecond);
  EXPECT_EQ(left(sliding, "a", 9 * kSecond), 4);
  EXPECT_EQ(left(sliding, "a", 12 * kSecond - 1), 4) << "the block at 0 holds nothing any more";
  EXPECT_EQ(left(sliding, "a", 12 * kSecond), 5);
  EXPECT_EQ(peek(sliding, {"a"}, 9 * kSecond, 0).decision.reset_after, 9 * kSecond) << "of block seven";
}

TEST_P(Refunds, FindTheirRecordWhenTheLimitsOfThePolicyHaveChanged) {
  const Answer answer = hit(policy, {"a"}, 0, 3);
  const CompiledPolicy after("p", {sliding_window(5, kMinute), fixed_window(5, kMinute)});
  hit(after, {"a"}, 0, 2);
  refund(policy, {"a"}, answer, 0, 3);
  EXPECT_EQ(left(after, "a", 0), 3);
  EXPECT_EQ(peek(policy, {"a"}, 0, 0).columns.remaining, (std::vector<std::int64_t>{3, 5}));
}

TEST_P(Refunds, OfACountedRefusalGiveBackOne) {
  const CompiledPolicy rule("rule", {fixed_window(1, kMinute)});
  const CompiledPolicy meta("meta", {fixed_window(3, kMinute)});
  const std::vector<Charge> charges{{&rule, "a", 1}, {&meta, "a", 7, Role::on_refusal}};
  call(charges, 0);
  const Answer refused = call(charges, 0);
  EXPECT_EQ(left(meta, "a", 0), 2);
  refund(charges, refused, 0);
  EXPECT_EQ(left(meta, "a", 0), 3);
  EXPECT_EQ(left(rule, "a", 0), 0);
}

TEST_P(Refunds, LeaveALockAsItIs) {
  const CompiledPolicy strict("strict", {fixed_window(1, kMinute)}, Penalty{{10 * kSecond}});
  const Answer answer = hit(strict, {"a"}, 0);
  hit(strict, {"a"}, 0);
  refund(strict, {"a"}, answer, 0);
  EXPECT_EQ(hit(strict, {"a"}, 10 * kSecond - 1).status(), Status::locked);
  EXPECT_TRUE(hit(strict, {"a"}, 10 * kSecond).allowed());
}

}  // namespace overlimit::testing
