#include "breaker/breaker.hpp"

#include <gtest/gtest.h>

#include <chrono>

namespace overlimit {
namespace {

using namespace std::chrono_literals;
using State = Breaker::State;
using Reason = Breaker::Reason;

constexpr Breaker::TimePoint kStart{1000s};

class BreakerTest : public ::testing::Test {
 protected:
  void fail(int times, Breaker::TimePoint now = kStart) {
    for (int i = 0; i < times; ++i) breaker_.failed(now, cause_);
  }
  void succeed(int times, Breaker::TimePoint now = kStart) {
    for (int i = 0; i < times; ++i) breaker_.succeeded(now);
  }
  /// The pauses before the next probes, each of which fails.
  void expect_pauses(Reason reason, const std::vector<std::chrono::milliseconds>& pauses) {
    Breaker::TimePoint now = kStart;
    breaker_.open(now, reason, cause_);
    for (const auto pause : pauses) {
      EXPECT_FALSE(breaker_.is_probe_due(now + pause * 8 / 10 - 1ms)) << pause.count();
      EXPECT_TRUE(breaker_.is_probe_due(now + pause)) << pause.count();
      now += pause;
      breaker_.probe_began();
      EXPECT_EQ(breaker_.state(), State::half_open);
      EXPECT_FALSE(breaker_.is_probe_due(now)) << "one at a time";
      breaker_.probe_failed(now, reason, cause_);
      EXPECT_EQ(breaker_.state(), State::open);
    }
  }

  Breaker breaker_{42};
  const Cause cause_ = Cause::unavailable("gone");
};

TEST_F(BreakerTest, StaysClosedBelowTwentyOutcomes) {
  fail(19);
  EXPECT_EQ(breaker_.state(), State::closed);
  fail(1);
  EXPECT_EQ(breaker_.state(), State::open);
}

TEST_F(BreakerTest, OpensAtHalfOfTheOutcomesAndNotBefore) {
  succeed(30);
  fail(29);
  EXPECT_EQ(breaker_.state(), State::closed);
  fail(1);
  EXPECT_EQ(breaker_.state(), State::open);
}

TEST_F(BreakerTest, ForgetsWhatIsTenSecondsOld) {
  fail(19);
  fail(1, kStart + 10s);
  EXPECT_EQ(breaker_.state(), State::closed);
  fail(18, kStart + 10s);
  EXPECT_EQ(breaker_.state(), State::closed);
  fail(1, kStart + 19s);
  EXPECT_EQ(breaker_.state(), State::open);
}

TEST_F(BreakerTest, OpensAtOnceForAServerThatIsGone) {
  succeed(1000);
  breaker_.open(kStart, Reason::refused, cause_);
  EXPECT_EQ(breaker_.state(), State::open);
  EXPECT_EQ(breaker_.cause().what(), "gone");
}

TEST_F(BreakerTest, ProbesARefusingServerAtLeastOnceASecond) {
  expect_pauses(Reason::refused, {100ms, 200ms, 400ms, 800ms, 1000ms, 1000ms});
}

TEST_F(BreakerTest, ProbesASilentServerEveryTwoSeconds) {
  expect_pauses(Reason::silent, {100ms, 200ms, 400ms, 800ms, 1600ms, 2000ms, 2000ms});
}

TEST_F(BreakerTest, AsksAServerThatRefusesItsUserFewerThanFiveTimesASecond) {
  expect_pauses(Reason::misconfigured, {300ms, 600ms, 1000ms, 1000ms});
}

TEST_F(BreakerTest, ClosesAndForgetsWhenAProbeIsAnswered) {
  fail(20);
  breaker_.probe_began();
  breaker_.probe_succeeded();
  EXPECT_EQ(breaker_.state(), State::closed);
  succeed(1);
  fail(18);
  EXPECT_EQ(breaker_.state(), State::closed);
}

TEST_F(BreakerTest, OpensAgainForLongerWhenTheFirstCallAfterAProbeFails) {
  fail(20);
  EXPECT_LE(breaker_.until_probe(kStart), 100ms);
  breaker_.probe_began();
  breaker_.probe_succeeded();
  fail(1);
  EXPECT_EQ(breaker_.state(), State::open);
  EXPECT_GT(breaker_.until_probe(kStart), 150ms);
  breaker_.probe_began();
  breaker_.probe_succeeded();
  succeed(1);
  breaker_.open(kStart, Reason::refused, cause_);
  EXPECT_LE(breaker_.until_probe(kStart), 100ms) << "a call had succeeded";
}

TEST_F(BreakerTest, SlownessAfterAnOutageBeginsWithTheShortestPause) {
  expect_pauses(Reason::refused, {100ms, 200ms, 400ms, 800ms});
  breaker_.probe_began();
  breaker_.probe_succeeded();
  fail(1);
  EXPECT_GE(breaker_.until_probe(kStart), 80ms);
  EXPECT_LE(breaker_.until_probe(kStart), 100ms);
}

TEST_F(BreakerTest, TellsHowLongUntilTheNextProbe) {
  EXPECT_EQ(breaker_.until_probe(kStart), 0s);
  breaker_.open(kStart, Reason::refused, cause_);
  EXPECT_GE(breaker_.until_probe(kStart), 80ms);
  EXPECT_LE(breaker_.until_probe(kStart), 100ms);
  EXPECT_EQ(breaker_.until_probe(kStart + 1s), 0s);
}

TEST_F(BreakerTest, StaggersTheProbesOfManyProcesses) {
  Breaker another{43};
  breaker_.open(kStart, Reason::refused, cause_);
  another.open(kStart, Reason::refused, cause_);
  EXPECT_NE(breaker_.until_probe(kStart), another.until_probe(kStart));
}

}  // namespace
}  // namespace overlimit
