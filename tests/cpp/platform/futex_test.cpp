#include "platform/futex.hpp"

#include <gtest/gtest.h>

#include <thread>

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

}  // namespace
}  // namespace overlimit::platform
