#include "platform/futex.hpp"

#include <gtest/gtest.h>

#include <ctime>
#include <thread>
#include <vector>

namespace overlimit::platform {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

TEST(Futexes, SleepNoLongerThanTheyMay) {
  std::atomic<std::uint32_t> word{7};
  const auto begin = Clock::now();
  while (Clock::now() - begin < 20ms) {
    const auto before = Clock::now();
    sleep_while(word, 7, 5ms);
    EXPECT_GE(Clock::now() - before, 500us) << "it spins";
  }
  EXPECT_LT(Clock::now() - begin, 500ms);
}

TEST(Futexes, DoNotSleepOnceTheWordHasChanged) {
  std::atomic<std::uint32_t> word{8};
  const auto begin = Clock::now();
  sleep_while(word, 7, 1h);
  EXPECT_LT(Clock::now() - begin, 1min);
}

TEST(Futexes, WakeWhoSleeps) {
  std::atomic<std::uint32_t> word{7};
  std::thread sleeper([&] {
    while (word.load() == 7) sleep_while(word, 7, 1min);
  });
  std::this_thread::sleep_for(5ms);
  const auto begin = Clock::now();
  word = 8;
  wake_one(word);
  sleeper.join();
  EXPECT_LT(Clock::now() - begin, 10s);
}

// Threads that wait for notifications: none is lost, and no wait outlasts its end or spins.

constexpr WaiterSet kFirst = 1;
constexpr WaiterSet kSecond = 2;

double processor_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return double(time.tv_sec) + double(time.tv_nsec) / 1e9;
}

TEST(EventCounts, LetAWaitEndInTime) {
  EventCount event;
  const double before = processor_seconds();
  const auto begin = Clock::now();
  EXPECT_EQ(event.wait(kFirst, event.count(), begin + 30ms), EventCount::End::timed_out);
  EXPECT_GE(Clock::now() - begin, 30ms);
  EXPECT_LT(processor_seconds() - before, 0.015) << "it spins";
}

TEST(EventCounts, DoNotWaitUntilWhatHasPassed) {
  EventCount event;
  EXPECT_EQ(event.wait(kFirst, event.count(), Clock::now() - 1s), EventCount::End::timed_out);
}

TEST(EventCounts, DoNotWaitAfterANotification) {
  EventCount event;
  const std::uint32_t count = event.count();
  event.notify(kSecond);
  EXPECT_EQ(event.wait(kFirst, count, Clock::now() + 1h), EventCount::End::notified);
}

TEST(EventCounts, WakeWhoeverIsNotifiedAndOnlyForThat) {
  EventCount event;
  std::atomic<int> woken{0};
  std::vector<std::thread> waiters;
  const std::uint32_t count = event.count();
  for (unsigned bit = 0; bit < EventCount::kMaxWaiters; ++bit) {
    waiters.emplace_back([&, bit] {
      EXPECT_EQ(event.wait(WaiterSet{1} << bit, count, Clock::now() + 1h), EventCount::End::notified);
      ++woken;
    });
  }
  std::this_thread::sleep_for(20ms);
  EXPECT_EQ(woken, 0);
  event.notify(~WaiterSet{0});
  for (std::thread& each : waiters) each.join();
  EXPECT_EQ(woken, 32);
}

// Two threads that notify each other in turn: a notification that is lost stops both.
TEST(EventCounts, LoseNoNotification) {
  constexpr int kTurns = 20'000;
  EventCount event;
  std::atomic<int> turn{0};
  const auto play = [&](int own, WaiterSet bit, WaiterSet other) {
    for (;;) {
      const std::uint32_t count = event.count();
      const int now = turn.load();
      if (now >= kTurns) return event.notify(other);
      if (now % 2 != own) {
        if (event.wait(bit, count, Clock::now() + 60s) == EventCount::End::timed_out) {
          ADD_FAILURE() << "of turn " << now;
          turn = kTurns;
        }
        continue;
      }
      turn = now + 1;
      event.notify(other);
    }
  };
  std::thread other(play, 1, kSecond, kFirst);
  play(0, kFirst, kSecond);
  other.join();
  EXPECT_EQ(turn, kTurns);
}

}  // namespace
}  // namespace overlimit::platform
