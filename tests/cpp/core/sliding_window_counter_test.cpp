#include "overlimit/algorithms/sliding_window_counter.hpp"

#include <gtest/gtest.h>

#include <random>

#include "../limits.hpp"
#include "lone_pair.hpp"

namespace overlimit {
namespace {

using namespace testing;

// Ten per thousand microseconds; eight were spent in the window at 4000.
class TenPerThousand : public ::testing::Test {
 protected:
  void SetUp() override { pair.hit(4'100, 8); }
  LonePair pair{sliding_window_counter(10, 1'000)};
};

TEST_F(TenPerThousand, ResetsWithThePreviousWindowWhenTheCurrentIsRefunded) {
  pair.hit(5'900, 2);
  EXPECT_EQ(pair.peek(5'900).reset_after, 1'100);
  EXPECT_TRUE(pair.refund(5'900, pair.receipt(), 2));
  EXPECT_EQ(pair.peek(5'900).reset_after, 100);
}

TEST(SlidingWindowCounter, RetriesExactlyHoweverLargeItsNumbers) {
  std::mt19937_64 random(6);
  for (int round = 0; round < 3'000; ++round) {
    const auto period = Micros(1 + random() % (round % 2 == 0 ? kMaxPeriod.micros() : 100'000));
    const auto limit = std::int64_t(1 + random() % (round % 3 == 0 ? kExact - 1 : 1'000));
    LonePair pair(sliding_window_counter(limit, period));
    const Micros start = Micros(random() % std::uint64_t(kMaxTime.micros() / 2)) / period * period;
    pair.hit(start, 1 + Cost(random() % std::uint64_t(limit)));
    const Micros now = start + Micros(random() % std::uint64_t(2 * period));
    const auto cost = Cost(1 + random() % std::uint64_t(limit));
    const Shown shown = pair.hit(now, cost);
    if (shown.status == Status::ok) continue;
    ASSERT_TRUE(pair.allows(now + shown.retry_after, cost)) << round;
    ASSERT_FALSE(pair.allows(now + shown.retry_after - 1, cost)) << round;
  }
}

TEST(SlidingWindowCounter, TakesAStateThatStartsNowhereForNone) {
  EXPECT_EQ(time_of(SlidingWindowCounter{3, For(1'000)}, SlidingWindowCounter::State{At(4'001), 1, 1}),
            kMaxTime);
  EXPECT_EQ(time_of(SlidingWindowCounter{3, For(1'000)}, SlidingWindowCounter::State{At(4'000), 1, 1}),
            4'000);
}

}  // namespace
}  // namespace overlimit
