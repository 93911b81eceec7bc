// Long histories, and what waits its turn.
#pragma once

#include "store_cases.hpp"

namespace overlimit::testing {

class LongHistories : public StoreCase {};

TEST_P(LongHistories, OfTenThousandEntriesAreExact) {
  const CompiledPolicy policy("p", {sliding_log(10'000, kMinute)});
  for (Micros now = 0; now < 10'000; ++now) ASSERT_TRUE(hit(policy, {"a"}, now).allowed()) << now;
  EXPECT_EQ(hit(policy, {"a"}, 10'000).decision.retry_after, kMinute - 10'000);
  EXPECT_EQ(peek(policy, {"a"}, 10'000, 10'000).decision.retry_after, kMinute - 1);
  EXPECT_FALSE(hit(policy, {"a"}, kMinute - 1).allowed());
  EXPECT_TRUE(hit(policy, {"a"}, kMinute).allowed());
  EXPECT_EQ(left(policy, "a", kMinute + 5'000), 5'000);
  EXPECT_EQ(left(policy, "a", kMinute + 9'999), 9'999) << "all but the latest";
}

TEST_P(LongHistories, OfAllBlocksAreExact) {
  const CompiledPolicy policy("p", {sliding_window(5'000, 4'096, 1)});
  for (Micros now = 0; now < 4'097; ++now) ASSERT_TRUE(hit(policy, {"a"}, now).allowed()) << now;
  EXPECT_EQ(left(policy, "a", 4'096), 5'000 - 4'097);
  EXPECT_EQ(left(policy, "a", 4'097), 5'000 - 4'096);
  EXPECT_EQ(peek(policy, {"a"}, 4'096, 5'000).decision.retry_after, 4'097);
}

class Queues : public StoreCase {
 protected:
  Answer within(Micros patience, Micros now, Cost cost = 1) {
    const std::vector<Charge> charges{{&policy, "a", cost}};
    return ask(*store, {charges, Mode::consume, now, true, patience});
  }
  const CompiledPolicy policy{"p", {leaky_bucket(2, kSecond, 6)}};
};

TEST_P(Queues, TellHowLongToWait) {
  EXPECT_EQ(hit(policy, {"a"}, 0, 2).decision.delay, 0);
  EXPECT_EQ(hit(policy, {"a"}, 100).decision.delay, kSecond - 100);
  EXPECT_EQ(hit(policy, {"a"}, 200, 3).decision.delay, 2 * kSecond - 200);
  EXPECT_EQ(peek(policy, {"a"}, 200, 2).decision.delay, 3 * kSecond - 200);
  EXPECT_EQ(hit(policy, {"a"}, 200, 3).decision.delay, 0) << "which is refused";
}

TEST_P(Queues, RefuseWhomTheyWouldKeepWaitingTooLong) {
  EXPECT_TRUE(within(0, 0, 2).allowed());
  const Answer impatient = within(kSecond - 101, 100);
  EXPECT_EQ(impatient.status(), Status::over);
  EXPECT_EQ(impatient.decision.retry_after, 1);
  EXPECT_EQ(left(policy, "a", 100), 6) << "and charge them nothing";
  EXPECT_TRUE(within(kSecond - 100, 100).allowed());
}

}  // namespace overlimit::testing
