// What fibers wait for, in which order they go on, and what ends them.
#include "overlimit/fibers.hpp"

#include <gtest/gtest.h>
#include <poll.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "../descriptors.hpp"
#include "../forks.hpp"
#include "loop.hpp"
#include "platform/fiber.hpp"

namespace overlimit {
namespace {

using namespace std::chrono_literals;
using SteadyClock = std::chrono::steady_clock;
using Woken = Fibers::Woken;
using namespace testing;

SteadyClock::time_point in_an_hour() { return SteadyClock::now() + 1h; }

class FibersTest : public ::testing::Test {
 protected:
  /// Starts one that waits, and says what has woken it.
  Fibers::Task& start_waiter(std::optional<Woken>& woken, int fd, short events,
                             SteadyClock::time_point until = in_an_hour()) {
    return fibers_.start([this, &woken, fd, events, until] { woken = fibers_.wait(fd, events, until); });
  }
  Fibers::Task& start_waiter(std::optional<Woken>& woken, const void* event, std::uint32_t waiters,
                             SteadyClock::time_point until = in_an_hour()) {
    return fibers_.start(
        [this, &woken, event, waiters, until] { woken = fibers_.wait(event, waiters, until); });
  }
  void notify(const void* event, std::uint32_t waiters) {
    fibers_.start([this, event, waiters] { fibers_.notify(event, waiters); });
  }

  Fibers fibers_;
  SocketPair pair_;
  const int event_ = 0;
};

TEST_F(FibersTest, RunUntilTheyWaitWhenTheyStart) {
  int steps = 0;
  fibers_.start([&] {
    ++steps;
    (void)fibers_.wait(-1, 0, SteadyClock::now() + 10ms);
    ++steps;
  });
  EXPECT_EQ(steps, 1);
  EXPECT_TRUE(run_until(fibers_, [&] { return steps == 2; }));
  fibers_.start([&] { ++steps; });
  EXPECT_EQ(steps, 3) << "done at once";
  EXPECT_TRUE(stays_silent(fibers_.fd()));
}

TEST_F(FibersTest, KnowWhoseTheyAre) {
  Fibers others;
  std::vector<const Fibers*> seen;
  EXPECT_EQ(Fibers::current(), nullptr);
  const auto look = [&] { seen.push_back(Fibers::current()); };
  fibers_.start(look);
  others.start(look);
  EXPECT_EQ(Fibers::current(), nullptr);
  EXPECT_EQ(seen, (std::vector<const Fibers*>{&fibers_, &others}));
}

TEST_F(FibersTest, WaitForADescriptor) {
  std::optional<Woken> woken;
  start_waiter(woken, pair_.fd(), POLLIN);
  EXPECT_TRUE(stays_silent(fibers_.fd()));
  pair_.send();
  EXPECT_FALSE(woken) << "nothing goes on but in run()";
  EXPECT_TRUE(run_until(fibers_, [&] { return woken.has_value(); }));
  EXPECT_EQ(woken, Woken::by_event);
}

TEST_F(FibersTest, WaitForTheSameDescriptorAgain) {
  int received = 0;
  fibers_.start([&] {
    while (fibers_.wait(pair_.fd(), POLLIN, in_an_hour()) == Woken::by_event) {
      pair_.receive();
      ++received;
    }
  });
  for (int i = 1; i <= 20; ++i) {
    pair_.send();
    EXPECT_TRUE(run_until(fibers_, [&] { return received == i; }));
  }
}

TEST_F(FibersTest, WaitForADescriptorUntilTheDeadline) {
  std::optional<Woken> woken;
  const auto deadline = SteadyClock::now() + 30ms;
  start_waiter(woken, pair_.fd(), POLLIN, deadline);
  EXPECT_TRUE(run_until(fibers_, [&] { return woken.has_value(); }));
  EXPECT_EQ(woken, Woken::by_deadline);
  EXPECT_GE(SteadyClock::now(), deadline);
  pair_.send();
  EXPECT_TRUE(becomes_readable(fibers_.fd())) << "it is watched still";
  fibers_.run();
  EXPECT_TRUE(stays_silent(fibers_.fd())) << "nobody waits for it any more";
}

TEST_F(FibersTest, WaitForDeadlinesInTheirOrder) {
  std::vector<int> order;
  const auto now = SteadyClock::now();
  for (const int after : {60, 20, 40, 0, -5}) {
    fibers_.start([this, &order, after, now] {
      const auto deadline = now + after * 1ms;
      EXPECT_EQ(fibers_.wait(-1, 0, deadline), Woken::by_deadline);
      EXPECT_GE(SteadyClock::now(), deadline);
      order.push_back(after);
    });
  }
  EXPECT_TRUE(run_until(fibers_, [&] { return order.size() == 5; }));
  EXPECT_EQ(order, (std::vector{-5, 0, 20, 40, 60}));
}

TEST_F(FibersTest, AreWokenByTheFirstThatHasADeadlineAfterOneThatLeft) {
  std::optional<Woken> early;
  std::optional<Woken> late;
  start_waiter(late, -1, 0, SteadyClock::now() + 60ms);
  start_waiter(early, pair_.fd(), POLLIN, SteadyClock::now() + 20ms);
  pair_.send();
  EXPECT_TRUE(run_until(fibers_, [&] { return early.has_value(); }));
  EXPECT_EQ(early, Woken::by_event);
  EXPECT_FALSE(late);
  EXPECT_TRUE(run_until(fibers_, [&] { return late.has_value(); }));
  EXPECT_EQ(late, Woken::by_deadline);
}

TEST_F(FibersTest, MayWaitForOneDescriptorTogether) {
  pair_.fill();
  std::optional<Woken> reader;
  std::optional<Woken> writer;
  std::optional<Woken> late;
  start_waiter(reader, pair_.fd(), POLLIN);
  start_waiter(writer, pair_.fd(), POLLOUT);
  start_waiter(late, pair_.fd(), POLLIN, SteadyClock::now() + 10ms);
  EXPECT_TRUE(run_until(fibers_, [&] { return late.has_value(); }));
  EXPECT_EQ(late, Woken::by_deadline);
  EXPECT_FALSE(reader || writer);
  pair_.drain();
  EXPECT_TRUE(run_until(fibers_, [&] { return writer.has_value(); }))
      << "one who came to read has left what they wait for as it was";
  EXPECT_EQ(writer, Woken::by_event);
  pair_.send();
  EXPECT_TRUE(run_until(fibers_, [&] { return reader.has_value(); }));
}

TEST_F(FibersTest, WaitForEventsByWhoTheyAre) {
  std::optional<Woken> first;
  std::optional<Woken> second;
  std::optional<Woken> elsewhere;
  const int other_event = 0;
  start_waiter(first, &event_, 1U);
  start_waiter(second, &event_, 2U);
  start_waiter(elsewhere, &other_event, 3U);
  notify(&event_, 4U);
  EXPECT_FALSE(first || second || elsewhere);
  notify(&event_, 2U);
  EXPECT_FALSE(first || elsewhere);
  EXPECT_EQ(second, Woken::by_event);
  second.reset();
  notify(&event_, 3U);
  EXPECT_EQ(first, Woken::by_event);
  EXPECT_FALSE(second || elsewhere) << "it is woken once";
  notify(&other_event, 1U);
  EXPECT_EQ(elsewhere, Woken::by_event);
}

TEST_F(FibersTest, AreAllWokenByAnEventOfTheirs) {
  std::vector<int> order;
  for (int i = 0; i < 5; ++i) {
    fibers_.start([this, &order, i] {
      EXPECT_EQ(fibers_.wait(&event_, i % 2 == 0 ? 1U : 2U, in_an_hour()), Woken::by_event);
      order.push_back(i);
    });
  }
  notify(&event_, 1U);
  EXPECT_EQ(order, (std::vector{0, 2, 4})) << "in the order in which they came";
  notify(&event_, ~0U);
  EXPECT_EQ(order, (std::vector{0, 2, 4, 1, 3}));
}

TEST_F(FibersTest, WaitForEventsUntilTheDeadline) {
  std::optional<Woken> woken;
  start_waiter(woken, &event_, 1U, SteadyClock::now() + 10ms);
  EXPECT_TRUE(run_until(fibers_, [&] { return woken.has_value(); }));
  EXPECT_EQ(woken, Woken::by_deadline);
  woken.reset();
  notify(&event_, 1U);
  EXPECT_FALSE(woken);
}

TEST_F(FibersTest, GoOnAfterTheOneThatNotifiedThem) {
  std::vector<std::string> order;
  fibers_.start([&] {
    (void)fibers_.wait(&event_, 1U, in_an_hour());
    order.emplace_back("woken");
  });
  fibers_.start([&] {
    fibers_.notify(&event_, 1U);
    order.emplace_back("notified");
  });
  EXPECT_EQ(order, (std::vector<std::string>{"notified", "woken"}));
}

TEST_F(FibersTest, GoOnInTheOrderInWhichTheyCanWhateverTheyWaitFor) {
  std::vector<int> order;
  SocketPair other;
  const auto waiter = [&](int number, int fd) {
    fibers_.start([this, &order, number, fd] {
      (void)fibers_.wait(fd, POLLIN, in_an_hour());
      order.push_back(number);
      (void)fibers_.wait(&event_, 1U, in_an_hour());
      order.push_back(10 + number);
    });
  };
  waiter(1, pair_.fd());
  waiter(2, other.fd());
  waiter(3, pair_.fd());
  other.send();
  EXPECT_TRUE(run_until(fibers_, [&] { return order.size() == 1; }));
  pair_.send();
  EXPECT_TRUE(run_until(fibers_, [&] { return order.size() == 3; }));
  notify(&event_, 1U);
  EXPECT_EQ(order, (std::vector{2, 1, 3, 12, 11, 13}));
}

TEST_F(FibersTest, AreInterruptedInAWaitOfAnyKind) {
  std::optional<Woken> on_fd;
  std::optional<Woken> on_event;
  std::optional<Woken> on_deadline;
  for (Fibers::Task* const task : {&start_waiter(on_fd, pair_.fd(), POLLIN),
                                   &start_waiter(on_event, &event_, 1U), &start_waiter(on_deadline, -1, 0)}) {
    fibers_.interrupt(*task);
  }
  EXPECT_FALSE(on_fd || on_event || on_deadline);
  fibers_.run();
  for (const auto& woken : {on_fd, on_event, on_deadline}) EXPECT_EQ(woken, Woken::by_signal);
}

TEST_F(FibersTest, WaitNoMoreOnceTheyAreInterrupted) {
  std::vector<Woken> woken;
  bool was_interrupted = true;
  Fibers::Task& task = fibers_.start([&] {
    was_interrupted = fibers_.is_interrupted();
    woken.push_back(fibers_.wait(pair_.fd(), POLLIN, in_an_hour()));
    EXPECT_TRUE(fibers_.is_interrupted());
    woken.push_back(fibers_.wait(pair_.fd(), POLLIN, in_an_hour()));
    woken.push_back(fibers_.wait(&event_, 1U, in_an_hour()));
    woken.push_back(fibers_.wait(-1, 0, in_an_hour()));
  });
  EXPECT_FALSE(was_interrupted);
  fibers_.interrupt(task);
  fibers_.interrupt(task);
  fibers_.run();
  EXPECT_EQ(woken, std::vector(4, Woken::by_signal));
}

TEST_F(FibersTest, LearnOfWhatCameBeforeAnInterruption) {
  std::vector<Woken> woken;
  Fibers::Task* task = nullptr;
  task = &fibers_.start([&] {
    woken.push_back(fibers_.wait(&event_, 1U, in_an_hour()));
    woken.push_back(fibers_.wait(&event_, 1U, in_an_hour()));
  });
  fibers_.start([&] {
    fibers_.notify(&event_, 1U);
    fibers_.interrupt(*task);
  });
  EXPECT_EQ(woken, (std::vector{Woken::by_event, Woken::by_signal}));
}

TEST_F(FibersTest, HaveOthersGoOnWhenOneIsInterrupted) {
  std::optional<Woken> first;
  std::optional<Woken> second;
  Fibers::Task& task = start_waiter(first, pair_.fd(), POLLIN);
  start_waiter(second, pair_.fd(), POLLIN);
  fibers_.interrupt(task);
  fibers_.run();
  EXPECT_EQ(first, Woken::by_signal);
  EXPECT_FALSE(second);
  pair_.send();
  EXPECT_TRUE(run_until(fibers_, [&] { return second.has_value(); }));
  EXPECT_EQ(second, Woken::by_event);
}

TEST_F(FibersTest, RunActionsOutside) {
  const auto here = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  const auto is_near = [&] {
    const auto there = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
    return there < here && here - there < platform::Fiber::Stack::kBytes / 2;
  };
  std::vector<bool> near;
  std::vector<const Fibers*> current;
  fibers_.start([&] {
    near.push_back(is_near());
    fibers_.run_outside([&] {
      near.push_back(is_near());
      current.push_back(Fibers::current());
    });
    current.push_back(Fibers::current());
    near.push_back(is_near());
  });
  EXPECT_EQ(near, (std::vector{false, true, false}));
  EXPECT_EQ(current, (std::vector<const Fibers*>{nullptr, &fibers_}));
}

TEST_F(FibersTest, RunManyActionsOutside) {
  constexpr int kTimes = 100'000;
  int times = 0;
  fibers_.start([&] {
    for (int i = 0; i < kTimes; ++i) fibers_.run_outside([&] { ++times; });
  });
  EXPECT_EQ(times, kTimes) << "none of them is within another";
}

TEST_F(FibersTest, ThrowWhatActionsOutsideThrow) {
  std::string caught;
  bool is_handled = false;
  fibers_.start([&] {
    try {
      fibers_.run_outside([] { throw std::runtime_error("outside"); });
    } catch (const std::runtime_error& error) {
      fibers_.run_outside([&] { is_handled = bool(std::current_exception()); });
      caught = error.what();
    }
  });
  EXPECT_EQ(caught, "outside");
  EXPECT_FALSE(is_handled) << "only on the fiber";
}

TEST_F(FibersTest, MayBeStartedByActionsOutside) {
  std::vector<int> order;
  fibers_.start([&] {
    fibers_.run_outside([&] { fibers_.start([&] { order.push_back(1); }); });
    order.push_back(2);
  });
  EXPECT_EQ(order, (std::vector{1, 2}));
}

TEST_F(FibersTest, SayWhenThereIsNoMemoryToWaitWith) {
  const std::string path = ::testing::TempDir() + "overlimit-plain-file";
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "w"), std::fclose);
  ASSERT_NE(file, nullptr);
  std::optional<Woken> woken;
  bool has_failed = false;
  fibers_.start([&] {
    try {
      woken = fibers_.wait(::fileno(file.get()), POLLIN, in_an_hour());
    } catch (const std::bad_alloc&) {
      has_failed = true;
      woken = fibers_.wait(&event_, 1U, in_an_hour());
    }
  });
  notify(&event_, 1U);
  EXPECT_TRUE(run_until(fibers_, [&] { return woken.has_value(); }))
      << "a file is always ready, if it can be waited for";
  EXPECT_EQ(woken, Woken::by_event);
  std::remove(path.c_str());
}

/// What there is one of for each loop.
struct Counted : NonCopyable {
  Counted() { ++made; }
  ~Counted() { ++destroyed; }

  int number = 0;
  static inline int made = 0;
  static inline int destroyed = 0;
};

TEST(FibersOfALoop, OwnOneOfEachKind) {
  Counted::made = Counted::destroyed = 0;
  {
    Fibers one;
    Fibers two;
    EXPECT_EQ(Counted::made, 0);
    one.own<Counted>().number = 1;
    EXPECT_EQ(one.own<Counted>().number, 1);
    EXPECT_EQ(two.own<Counted>().number, 0);
    EXPECT_TRUE(one.own<std::string>().empty());
    EXPECT_EQ(Counted::made, 2);
    EXPECT_EQ(Counted::destroyed, 0);
  }
  EXPECT_EQ(Counted::destroyed, 2);
}

TEST(FibersOfALoop, KeepWhatTheyOwnUntilAllHaveEnded) {
  Counted::made = Counted::destroyed = 0;
  int destroyed_before = -1;
  {
    Fibers fibers;
    fibers.start([&] {
      Counted& own = fibers.own<Counted>();
      (void)fibers.wait(-1, 0, in_an_hour());
      own.number = 1;
      destroyed_before = Counted::destroyed;
    });
  }
  EXPECT_EQ(destroyed_before, 0);
  EXPECT_EQ(Counted::destroyed, 1);
}

/// Is on the stack of a fiber.
class Guest : NonCopyable {
 public:
  explicit Guest(int& guests) : guests_(guests) { ++guests_; }
  ~Guest() { --guests_; }

 private:
  int& guests_;
};

TEST(FibersOfALoop, EndWhenItIsDestroyed) {
  int guests = 0;
  int signals = 0;
  const int event = 0;
  const SocketPair pair;
  {
    Fibers fibers;
    for (int i = 0; i < 60; ++i) {
      fibers.start([&, i] {
        const Guest guest(guests);
        for (int turn = 0; turn <= i % 2; ++turn) {
          Woken woken{};
          if (i % 3 == 0) woken = fibers.wait(pair.fd(), POLLIN, in_an_hour());
          if (i % 3 == 1) woken = fibers.wait(&event, 1U, in_an_hour());
          if (i % 3 == 2) woken = fibers.wait(-1, 0, in_an_hour());
          if (woken == Woken::by_signal) ++signals;
        }
      });
    }
    EXPECT_EQ(guests, 60);
  }
  EXPECT_EQ(guests, 0);
  EXPECT_EQ(signals, 90);
}

TEST(FibersOfALoop, RunInWhicheverThreadRunsIt) {
  Fibers fibers;
  const SocketPair pair;
  bool is_done = false;
  fibers.start([&] {
    try {
      throw std::runtime_error("kept");
    } catch (const std::runtime_error&) {
      (void)fibers.wait(pair.fd(), POLLIN, in_an_hour());
      EXPECT_EQ(Fibers::current(), &fibers);
      EXPECT_THROW(throw, std::runtime_error);
    }
    is_done = true;
  });
  pair.send();
  std::thread([&] { EXPECT_TRUE(run_until(fibers, [&] { return is_done; })); }).join();
  EXPECT_TRUE(is_done);
}

TEST(FibersOfALoop, EndInTheParentAloneWhereAChildDestroysIt) {
  int guests = 0;
  int owned_by_child = -1;
  std::optional<Woken> woken;
  const SocketPair pair;
  auto fibers = std::make_unique<Fibers>();
  Counted::made = Counted::destroyed = 0;
  fibers->start([&, loop = fibers.get()] {
    const Guest guest(guests);
    (void)loop->own<Counted>();
    woken = loop->wait(pair.fd(), POLLIN, in_an_hour());
  });
  EXPECT_TRUE(in_child([&] {
    fibers.reset();
    if (guests != 1 || Counted::destroyed != 0 || woken) return false;
    Fibers own;
    in_fibers(own, 1, [&](int) {
      (void)own.wait(-1, 0, SteadyClock::now() + 5ms);
      owned_by_child = own.own<int>();
    });
    return owned_by_child == 0;
  }));
  pair.send();
  EXPECT_TRUE(run_until(*fibers, [&] { return woken.has_value(); }));
  EXPECT_EQ(woken, Woken::by_event);
  EXPECT_EQ(guests, 0);
}

}  // namespace
}  // namespace overlimit
