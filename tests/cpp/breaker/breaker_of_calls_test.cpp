#include "breaker/breaker_of_calls.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <optional>

namespace overlimit {
namespace {

using namespace std::chrono_literals;
using TimePoint = BreakerOfCalls::TimePoint;
using Attempt = BreakerOfCalls::Attempt;

constexpr TimePoint kNow{1000s};

class BreakerOfCallsTest : public ::testing::Test {
 protected:
  void fail(int times, TimePoint now = kNow) {
    for (int i = 0; i < times; ++i) Attempt(breaker_, now).failed(now, StoreTimeout("too late"));
  }
  void succeed(int times, TimePoint now = kNow) {
    for (int i = 0; i < times; ++i) Attempt(breaker_, now).succeeded(now);
  }
  bool lets_go(TimePoint now) {
    try {
      Attempt(breaker_, now).succeeded(now);
      return true;
    } catch (const StoreUnavailable&) {
      return false;
    }
  }

  BreakerOfCalls breaker_{1};
};

TEST_F(BreakerOfCallsTest, OpensAtHalfOfTwentyCallsAndFailsAtOnceWithTheCause) {
  succeed(10);
  fail(9);
  EXPECT_EQ(breaker_.state(), BreakerState::closed);
  fail(1);
  EXPECT_EQ(breaker_.state(), BreakerState::open);
  try {
    const Attempt call(breaker_, kNow + 1ms);
    FAIL() << "it was let go";
  } catch (const StoreUnavailable& error) {
    EXPECT_EQ(std::string(error.what()).find("too late; calls fail at once"), 0U) << error.what();
    EXPECT_FALSE(error.maybe_charged());
    EXPECT_GT(error.retry_after(), Duration{});
  }
}

TEST_F(BreakerOfCallsTest, StaysClosedWhileMoreThanHalfSucceed) {
  for (int i = 0; i < 100; ++i) {
    succeed(2);
    fail(1);
  }
  EXPECT_EQ(breaker_.state(), BreakerState::closed);
}

TEST_F(BreakerOfCallsTest, LetsOneCallGoAtATimeWhichClosesIt) {
  fail(20);
  const TimePoint due = kNow + 100ms;
  {
    Attempt probe(breaker_, due);
    EXPECT_EQ(breaker_.state(), BreakerState::half_open);
    EXPECT_FALSE(lets_go(due));
    probe.succeeded(due);
  }
  EXPECT_EQ(breaker_.state(), BreakerState::closed);
  EXPECT_TRUE(lets_go(due));
}

TEST_F(BreakerOfCallsTest, PausesForLongerAfterAProbeThatFails) {
  fail(20);
  TimePoint now = kNow;
  for (const auto pause : {100ms, 200ms, 400ms, 800ms, 1600ms, 2000ms, 2000ms}) {
    EXPECT_FALSE(lets_go(now + pause * 8 / 10 - 1ms)) << pause.count();
    now += pause;
    fail(1, now);
    EXPECT_EQ(breaker_.state(), BreakerState::open);
  }
}

TEST_F(BreakerOfCallsTest, LetsAnotherGoWhenNothingIsLearntFromAProbe) {
  fail(20);
  TimePoint now = std::chrono::steady_clock::now() + 1h;
  { const Attempt interrupted(breaker_, now); }
  EXPECT_EQ(breaker_.state(), BreakerState::open);
  EXPECT_TRUE(lets_go(now + 2s));
  EXPECT_EQ(breaker_.state(), BreakerState::closed);
}

TEST_F(BreakerOfCallsTest, LetsAnotherGoWhenAProbeIsNotHeardOf) {
  fail(20);
  const TimePoint due = kNow + 100ms;
  std::optional<Attempt> lost(std::in_place, breaker_, due);
  EXPECT_FALSE(lets_go(due + Breaker::kProbeTimeout - 1ms));
  EXPECT_TRUE(lets_go(due + Breaker::kProbeTimeout));
  lost->failed(due + 1h, StoreTimeout("too late"));
}

TEST_F(BreakerOfCallsTest, BeginsAnewInAChild) {
  fail(20);
  const std::optional<Attempt> probe(std::in_place, breaker_, kNow + 100ms);
  const pid_t child = fork();
  if (child == 0) _exit(breaker_.state() == BreakerState::closed && lets_go(kNow) ? 0 : 1);
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(breaker_.state(), BreakerState::half_open);
}

}  // namespace
}  // namespace overlimit
