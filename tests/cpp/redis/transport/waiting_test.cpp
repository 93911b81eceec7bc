// How often a server is asked again that could not serve.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

#include "redis/transport/synchronization.hpp"
#include "redis/transport/waiting.hpp"
#include "topologies.hpp"

namespace overlimit::redis::transport {
namespace {

using Clock = Deadline::Clock;

TEST(Backoffs, EndBeforeTheDeadline) {
  Backoff backoff;
  const Deadline deadline(1s);
  int pauses = 0;
  while (backoff.pause({deadline})) ++pauses;
  EXPECT_FALSE(deadline.remaining() > 135ms) << "no pause is longer than 100 ms, and no reserve than 25 ms";
  EXPECT_GE(pauses, 2);
}

TEST(Backoffs, LeaveTimeForAnAnswer) {
  for (int i = 0; i < 20; ++i) {
    Backoff backoff;
    EXPECT_TRUE(backoff.pause({Deadline(60s)}));
    EXPECT_FALSE(backoff.pause({Deadline(20ms)}));
  }
}

TEST(Backoffs, DrawEvenlyUpToTheirBound) {
  auto least = 1000us;
  auto most = 0us;
  for (int i = 0; i < 1000; ++i) {
    const auto drawn = jittered(1000us);
    least = std::min(least, drawn);
    most = std::max(most, drawn);
  }
  EXPECT_GE(least, 0us);
  EXPECT_LT(least, 50us);
  EXPECT_GT(most, 950us);
  EXPECT_LE(most, 1000us);
}

TEST(Errands, AreOnesAtATimeAndNotTooSoon) {
  RateLimitedTask task;
  {
    const RateLimitedTask::Permit first(task);
    EXPECT_TRUE(first);
    EXPECT_TRUE(task.is_running());
    EXPECT_FALSE(RateLimitedTask::Permit(task));
  }
  EXPECT_FALSE(task.is_running());
  EXPECT_FALSE(RateLimitedTask::Permit(task)) << "somebody just had it";
  EXPECT_TRUE(eventually([&] { return bool(RateLimitedTask::Permit(task)); }));
}

TEST(Errands, ComeLessOftenWhileTheyAreOfNoUse) {
  const auto took = [](bool useful) {
    RateLimitedTask task;
    const auto before = Clock::now();
    for (int turns = 0; turns < 4;) {
      RateLimitedTask::Permit permit(task);
      if (permit && useful) permit.was_useful();
      if (permit) ++turns;
      std::this_thread::sleep_for(1ms);
    }
    return Clock::now() - before;
  };
  EXPECT_GE(took(true), 3 * RateLimitedTask::kShortest / 2);
  EXPECT_GE(took(false), (2 + 4 + 8) * RateLimitedTask::kShortest / 2);
}

TEST(Errands, BeginWithThePauseTheyAreMadeWithWhenTheyAreOfNoUse) {
  constexpr auto kPause = 8ms;
  RateLimitedTask task(kPause);
  const auto before = Clock::now();
  for (int turns = 0; turns < 4; std::this_thread::sleep_for(1ms)) {
    if (RateLimitedTask::Permit(task)) ++turns;
  }
  const auto took = Clock::now() - before;
  EXPECT_GE(took, (1 + 2 + 4) * kPause / 2);
  EXPECT_LT(took, 10 * (1 + 2 + 4) * kPause);
}

TEST(Errands, AreOnlyOneThreadsAtATime) {
  RateLimitedTask task;
  std::atomic<int> holders{0};
  std::atomic<int> most{0};
  std::atomic<int> turns{0};
  in_threads(4, [&](int) {
    const Deadline deadline(300ms);
    while (!deadline.passed()) {
      RateLimitedTask::Permit permit(task);
      if (!permit) continue;
      permit.was_useful();
      most.store(std::max(most.load(), holders.fetch_add(1) + 1));
      ++turns;
      holders.fetch_sub(1);
    }
  });
  EXPECT_EQ(most.load(), 1);
  EXPECT_GE(turns.load(), 2);
  EXPECT_LE(turns.load(), 7) << "in 300 ms, one each 50 to 100 ms";
}

}  // namespace
}  // namespace overlimit::redis::transport
