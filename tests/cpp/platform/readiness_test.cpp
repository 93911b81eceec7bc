// One descriptor that stands for many and for an instant.
#include "platform/readiness.hpp"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <deque>
#include <memory>
#include <system_error>
#include <vector>

#include "../descriptors.hpp"
#include "../forks.hpp"

namespace overlimit::platform {
namespace {

using namespace std::chrono_literals;
using Steady = std::chrono::steady_clock;
using namespace testing;

/// What is reported when anything is; an empty answer may be the instant.
std::vector<int> reported(Readiness& readiness) {
  std::array<int, 8> fds{};
  if (!becomes_readable(readiness.fd())) return {-1};
  const std::size_t count = readiness.take_ready(fds);
  return {fds.begin(), fds.begin() + static_cast<std::ptrdiff_t>(count)};
}

using Fds = std::vector<int>;

TEST(ReadinessOfMany, ReportsADescriptorOnce) {
  Readiness readiness;
  const SocketPair pair;
  readiness.watch(pair.fd(), POLLIN);
  EXPECT_TRUE(stays_silent(readiness.fd()));
  pair.send();
  EXPECT_EQ(reported(readiness), Fds{pair.fd()});
  pair.send();
  EXPECT_TRUE(stays_silent(readiness.fd())) << "it is watched no longer";
  readiness.watch(pair.fd(), POLLIN);
  EXPECT_EQ(reported(readiness), Fds{pair.fd()}) << "there were bytes before";
}

TEST(ReadinessOfMany, StaysReadableUntilItIsAsked) {
  Readiness readiness;
  const SocketPair pair;
  readiness.watch(pair.fd(), POLLIN);
  pair.send();
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(becomes_readable(readiness.fd()));
  EXPECT_EQ(reported(readiness), Fds{pair.fd()});
  EXPECT_TRUE(stays_silent(readiness.fd()));
}

TEST(ReadinessOfMany, ReportsNothingWhereNothingIsReady) {
  Readiness readiness;
  const SocketPair pair;
  readiness.watch(pair.fd(), POLLIN);
  std::array<int, 8> fds{};
  EXPECT_EQ(readiness.take_ready(fds), 0U);
}

TEST(ReadinessOfMany, WatchesForAnyOfItsEvents) {
  Readiness readiness;
  const SocketPair pair;
  pair.fill();
  readiness.watch(pair.fd(), POLLIN | POLLOUT);
  EXPECT_TRUE(stays_silent(readiness.fd()));
  pair.drain();
  EXPECT_EQ(reported(readiness), Fds{pair.fd()});
  pair.fill();
  readiness.watch(pair.fd(), POLLIN | POLLOUT);
  pair.send();
  EXPECT_EQ(reported(readiness), Fds{pair.fd()});
}

TEST(ReadinessOfMany, WatchesForTheEventsThatWereGivenLast) {
  Readiness readiness;
  const SocketPair pair;
  readiness.watch(pair.fd(), POLLIN);
  readiness.watch(pair.fd(), POLLOUT);
  EXPECT_EQ(reported(readiness), Fds{pair.fd()});
  pair.fill();
  readiness.watch(pair.fd(), POLLIN);
  readiness.watch(pair.fd(), POLLOUT);
  pair.send();
  EXPECT_TRUE(stays_silent(readiness.fd()));
}

TEST(ReadinessOfMany, ReportsThatThePeerIsGone) {
  Readiness readiness;
  SocketPair pair;
  pair.fill();
  readiness.watch(pair.fd(), POLLOUT);
  pair.close_peer();
  EXPECT_EQ(reported(readiness), Fds{pair.fd()});
}

TEST(ReadinessOfMany, WatchesWhateverHasTheNumberOfAClosedDescriptor) {
  Readiness readiness;
  SocketPair closed;
  const int number = closed.fd();
  readiness.watch(number, POLLIN);
  closed.close();
  const SocketPair next;
  ASSERT_EQ(next.fd(), number);
  readiness.watch(number, POLLIN);
  next.send();
  // Where a thread looks, it may have seen the closed one: then it is said once too often, and never too
  // seldom.
  Fds all = reported(readiness);
  while (!stays_silent(readiness.fd())) {
    const Fds more = reported(readiness);
    all.insert(all.end(), more.begin(), more.end());
  }
  EXPECT_GE(all.size(), 1U);
  EXPECT_EQ(std::ranges::count(all, number), static_cast<std::ptrdiff_t>(all.size()));
}

TEST(ReadinessOfMany, GoesOnWhereADescriptorWasClosedUnderIt) {
  Readiness readiness;
  SocketPair closed;
  const SocketPair open;
  readiness.watch(closed.fd(), POLLIN);
  closed.close();
  readiness.watch(open.fd(), POLLIN);
  open.send();
  Fds all = reported(readiness);
  while (std::ranges::find(all, open.fd()) == all.end()) all = reported(readiness);
  EXPECT_EQ(all.back(), open.fd());
}

TEST(ReadinessOfMany, WakesAtAnInstantAndNotBefore) {
  Readiness readiness;
  const auto instant = Steady::now() + 40ms;
  readiness.wake_at(instant);
  EXPECT_TRUE(becomes_readable(readiness.fd()));
  EXPECT_GE(Steady::now(), instant);
  EXPECT_EQ(reported(readiness), Fds{});
  EXPECT_TRUE(stays_silent(readiness.fd())) << "once";
}

TEST(ReadinessOfMany, WakesAtOnceForAnInstantThatHasPassed) {
  Readiness readiness;
  for (const auto instant : {Steady::now() - 1h, Steady::time_point{}, Steady::now()}) {
    readiness.wake_at(instant);
    EXPECT_EQ(reported(readiness), Fds{});
    EXPECT_TRUE(stays_silent(readiness.fd()));
  }
}

TEST(ReadinessOfMany, WakesAtTheInstantThatWasGivenLast) {
  Readiness readiness;
  readiness.wake_at(Steady::now() + 1h);
  const auto sooner = Steady::now() + 20ms;
  readiness.wake_at(sooner);
  EXPECT_EQ(reported(readiness), Fds{});
  EXPECT_GE(Steady::now(), sooner);
  readiness.wake_at(Steady::now() + 1ms);
  const auto later = Steady::now() + 60ms;
  readiness.wake_at(later);
  Fds all = reported(readiness);
  if (Steady::now() < later) all = reported(readiness);  // the first one had come in between
  EXPECT_EQ(all, Fds{});
  EXPECT_GE(Steady::now(), later);
}

TEST(ReadinessOfMany, ReportsDescriptorsAlsoWhenTheInstantHasCome) {
  Readiness readiness;
  const SocketPair pair;
  readiness.wake_at(Steady::now());
  readiness.watch(pair.fd(), POLLIN);
  pair.send();
  Fds all = reported(readiness);
  if (all.empty()) all = reported(readiness);
  EXPECT_EQ(all, Fds{pair.fd()});
}

TEST(ReadinessOfMany, ReportsAllOfMoreThanFitAtOnce) {
  constexpr std::size_t kCount = 150;
  Readiness readiness;
  std::deque<SocketPair> pairs(kCount);
  for (const SocketPair& pair : pairs) {
    pair.send();
    readiness.watch(pair.fd(), POLLIN);
  }
  Fds all;
  while (all.size() < kCount) {
    const Fds some = reported(readiness);
    ASSERT_GE(some.size(), 1U);
    ASSERT_LE(some.size(), 8U);
    all.insert(all.end(), some.begin(), some.end());
  }
  Fds expected;
  for (const SocketPair& pair : pairs) expected.push_back(pair.fd());
  std::ranges::sort(all);
  std::ranges::sort(expected);
  EXPECT_EQ(all, expected) << "each once";
  EXPECT_TRUE(stays_silent(readiness.fd()));
}

TEST(ReadinessOfMany, IsItsParentsWhereAChildDestroysIt) {
  auto readiness = std::make_unique<Readiness>();
  const SocketPair watched;
  const SocketPair later;
  readiness->watch(watched.fd(), POLLIN);
  readiness->wake_at(Steady::now() + 1h);
  EXPECT_TRUE(in_child([&] {
    readiness.reset();
    Readiness own;
    own.watch(later.fd(), POLLOUT);
    return reported(own) == Fds{later.fd()};
  }));
  watched.send();
  EXPECT_EQ(reported(*readiness), Fds{watched.fd()});
  readiness->wake_at(Steady::now());
  EXPECT_EQ(reported(*readiness), Fds{});
}

TEST(ReadinessOfMany, SaysWhenThereAreNoDescriptorsAndLeavesNoneOpen) {
  const SocketPair probe;
  EXPECT_TRUE(in_child([&] {
    const auto lowest = ::dup(probe.fd());
    ::close(lowest);
    for (int free = 0; free < 2; ++free) {
      const rlimit limit{static_cast<rlim_t>(lowest + free), 1024};
      if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) return false;
      try {
        const Readiness readiness;
        return false;
      } catch (const std::system_error&) {
      }
    }
    return ::dup(probe.fd()) == lowest;
  }));
}

}  // namespace
}  // namespace overlimit::platform
