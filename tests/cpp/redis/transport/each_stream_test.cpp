// What holds of connections that many use or that forks inherit, in the clear and under TLS alike.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <latch>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "../../forks.hpp"
#include "overlimit/errors.hpp"
#include "signals.hpp"
#include "tls_fixture.hpp"

namespace overlimit::redis::transport {
namespace {

using overlimit::testing::in_child;

class EachStreamTest : public TlsTest, public ::testing::WithParamInterface<bool> {
 protected:
  [[nodiscard]] static Endpoint endpoint() { return endpoint_of(*server_, GetParam()); }
};

INSTANTIATE_TEST_SUITE_P(, EachStreamTest, ::testing::Bool(),
                         [](const auto& each) { return each.param ? "Tls" : "InTheClear"; });

/// What many threads were told, and what the server counted.
struct Told {
  std::atomic<int> acknowledged{0};
  std::atomic<int> unknown{0};
  std::atomic<int> unsent{0};
  std::atomic<int> strange{0};

  void call_once(Connections& connections, int thread, int i) {
    try {
      if (i % 3 == 0) {
        const std::string word = std::to_string(thread) + ":" + std::to_string(i);
        if (text(connections, {"ECHO", word}) != word) ++strange;
        return;
      }
      (void)call(connections, {"INCR", "storm:counter"}, 30ms);
      ++acknowledged;
    } catch (const StoreError& error) {
      if (i % 3 != 0) ++(error.maybe_charged() ? unknown : unsent);
    }
  }

  void expect_to_agree_with(Connections& admin) const {
    EXPECT_EQ(strange.load(), 0) << "replies of others";
    std::this_thread::sleep_for(50ms);  // what was sent and not heard of
    const int counted = std::stoi(text(admin, {"GET", "storm:counter"}));
    EXPECT_GE(counted, acknowledged.load());
    EXPECT_LE(counted, acknowledged.load() + unknown.load());
    EXPECT_GT(acknowledged.load(), 30);
    EXPECT_GT(unknown.load() + unsent.load(), 0);
  }
};

/// Threads that call while the proxy does this and that, and connections are closed under them.
void storm(Connections& connections, Proxy& proxy, Told& told) {
  constexpr int kThreads = 8;
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; !stop.load(); ++i) {
        told.call_once(connections, thread, i);
        if (connections.breaker() != Breaker::State::closed) std::this_thread::sleep_for(1ms);
      }
    });
  }
  constexpr std::array kModes{Proxy::Replies::pass, Proxy::Replies::hold, Proxy::Replies::pass,
                              Proxy::Replies::drip, Proxy::Replies::pass, Proxy::Replies::cut};
  for (std::size_t round = 0; round < 18; ++round) {
    proxy.set(kModes[round % kModes.size()]);
    std::this_thread::sleep_for(kModes[round % kModes.size()] == Proxy::Replies::pass ? 150ms : 50ms);
    if (round % 5 == 4) connections.close();
  }
  proxy.set(Proxy::Replies::pass);
  std::this_thread::sleep_for(300ms);
  stop.store(true);
  for (std::thread& thread : threads) thread.join();
}

TEST_P(EachStreamTest, BringsEachThreadItsOwnRepliesOverThreeConnectionsAtMost) {
  constexpr int kThreads = 8;
  const std::int64_t before = clients_of(admin_);
  Connections connections(endpoint());
  std::latch connected(kThreads);
  std::latch counted(1);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; i < 200; ++i) {
        const std::string word = std::to_string(thread) + ":" + std::to_string(i);
        if (text(connections, {"ECHO", word}) != word) ++wrong;
      }
      connected.count_down();
      counted.wait();
    });
  }
  connected.wait();
  EXPECT_GE(clients_of(admin_), before + 1);
  EXPECT_LE(clients_of(admin_), before + 3);
  counted.count_down();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0);
}

TEST_P(EachStreamTest, AnInterruptionEndsTheWaitAndLeavesTheConnectionUsable) {
  Connections connections(endpoint());
  const std::int64_t id = integer(connections, {"CLIENT", "ID"});
  {
    const Signals signals;
    const Deadline ample(kAmple);
    EXPECT_THROW((void)call(connections, {"BLPOP", "nothing:here", "0.3"}, kAmple, [] { return true; }),
                 WaitInterrupted);
    EXPECT_FALSE(ample.passed());
  }
  EXPECT_EQ(text(connections, {"ECHO", "mine"}), "mine");
  EXPECT_EQ(integer(connections, {"CLIENT", "ID"}), id);
}

TEST_P(EachStreamTest, AChildUsesConnectionsOfItsOwnAndLeavesTheParentsAlone) {
  auto connections = std::make_unique<Connections>(endpoint());
  const std::int64_t id = integer(*connections, {"CLIENT", "ID"});
  EXPECT_TRUE(in_child([&] {
    return integer(*connections, {"CLIENT", "ID"}) != id && echoes(*connections, "child", 20) &&
           in_child([&] { return echoes(*connections, "grandchild", 20); });
  }));
  EXPECT_TRUE(in_child([&] {
    connections.reset();  // never used here
    return true;
  }));
  EXPECT_EQ(integer(*connections, {"CLIENT", "ID"}), id);
}

TEST_P(EachStreamTest, ParentAndChildAreBothRightAfterAFork) {
  Connections connections(endpoint());
  (void)call(connections, {"PING"});
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(echoes(connections, "child", 300) ? 0 : 1);
  EXPECT_TRUE(echoes(connections, "parent", 300));
  int status = -1;
  ::waitpid(pid, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

#ifndef __SANITIZE_ADDRESS__  // whose own allocator has locks that a child may never get
TEST_P(EachStreamTest, AForkUnderOtherThreadsCallsDisturbsNobody) {
  Connections connections(endpoint());
  std::atomic<bool> stop{false};
  std::atomic<bool> right{true};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 2; ++thread) {
    threads.emplace_back([&, thread] {
      while (!stop.load()) {
        if (!echoes(connections, "thread" + std::to_string(thread) + " ", 20)) right.store(false);
      }
    });
  }
  std::thread closer([&] {
    while (!stop.load()) connections.close();
  });
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(in_child([&] { return echoes(connections, "child", 10); }));
  stop.store(true);
  for (std::thread& thread : threads) thread.join();
  closer.join();
  EXPECT_TRUE(right.load());
}
#endif

TEST_P(EachStreamTest, LosesAndInventsNothingInAStorm) {
  Proxy proxy(endpoint().port);
  Connections connections(behind(proxy, GetParam()));
  (void)call(admin_, {"SET", "storm:counter", "0"});
  Told told;
  storm(connections, proxy, told);
  told.expect_to_agree_with(admin_);
}

}  // namespace
}  // namespace overlimit::redis::transport
