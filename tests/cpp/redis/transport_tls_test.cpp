// Connections under TLS: the same promises as in the clear, also while TLS itself is still being agreed on.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "forks.hpp"
#include "overlimit/errors.hpp"
#include "signals.hpp"
#include "tls_fixture.hpp"

namespace overlimit::redis::transport {
namespace {

TEST_F(TlsTest, UsesOneConnectionForAllCallsOfAThread) {
  Connections connections(server_->tls());
  const std::int64_t id = integer(connections, {"CLIENT", "ID"});
  for (int i = 0; i < 10; ++i) EXPECT_EQ(integer(connections, {"CLIENT", "ID"}), id);
}

TEST_F(TlsTest, LogsInAndSelectsUnderTls) {
  const TlsServer server(*certificates_, "server", {"--requirepass", "s3cret"});
  Endpoint endpoint = server.tls();
  endpoint.password = "s3cret";
  endpoint.database = 2;
  Connections connections(endpoint);
  (void)call(connections, {"SET", "a", "1"});
  EXPECT_EQ(text(connections, {"GET", "a"}), "1");
  endpoint.password = "wrong";
  Connections wrong(endpoint);
  error_of<StoreConfigError>([&] { (void)call(wrong, {"PING"}); });
}

TEST_F(TlsTest, MovesMegabytesBothWays) {
  Connections connections(server_->tls());
  const std::string big(std::size_t{8} << 20U, 'x');
  EXPECT_EQ(text(connections, {"ECHO", big}), big);
}

TEST_F(TlsTest, ReadsAHandshakeThatComesByteByByte) {
  Proxy proxy(server_->port());
  proxy.set(Proxy::Replies::drip);
  Connections connections(behind(proxy));
  EXPECT_EQ(text(connections, {"ECHO", "drop by drop"}), "drop by drop");
}

TEST_F(TlsTest, TimesOutInTheHandshakeWithNothingCharged) {
  Proxy proxy(server_->port());
  proxy.set(Proxy::Replies::hold);
  Connections connections(behind(proxy));
  const auto start = Deadline::Clock::now();
  const auto error = error_of<StoreTimeout>([&] { (void)call(connections, {"INCR", "handshake"}, 100ms); });
  const auto elapsed = Deadline::Clock::now() - start;
  EXPECT_GE(elapsed, 100ms);
  EXPECT_LT(elapsed, 100ms + kGrace);
  ASSERT_TRUE(error.has_value());
  EXPECT_FALSE(error->maybe_charged());
  proxy.set(Proxy::Replies::pass);
  EXPECT_TRUE(eventually([&] { return answers(connections); }));
  EXPECT_EQ(integer(connections, {"INCR", "handshake"}), 1);
}

TEST_F(TlsTest, IsUnavailableWhenTheHandshakeIsCut) {
  Proxy proxy(server_->port());
  proxy.set(Proxy::Replies::cut);
  Connections connections(behind(proxy));
  const auto error = error_of<StoreUnavailable>([&] { (void)call(connections, {"PING"}); });
  ASSERT_TRUE(error.has_value());
  EXPECT_FALSE(error->maybe_charged());
}

TEST_F(TlsTest, AnInterruptionEndsTheHandshakeAndTheNextCallBeginsAnew) {
  Proxy proxy(server_->port());
  proxy.set(Proxy::Replies::hold);
  Connections connections(behind(proxy));
  {
    const Signals signals;
    EXPECT_THROW((void)call(connections, {"PING"}, kAmple, [] { return true; }), WaitInterrupted);
  }
  proxy.set(Proxy::Replies::pass);
  EXPECT_EQ(text(connections, {"PING"}), "PONG");
}

TEST_F(TlsTest, SignalsThatDoNotInterruptDisturbNothing) {
  Proxy proxy(server_->port());
  proxy.set(Proxy::Replies::drip);
  Connections connections(behind(proxy));
  const Signals signals;
  const std::string big(std::size_t{1} << 20U, 'x');
  EXPECT_TRUE(echoes(connections, "under signals", 3));
  proxy.set(Proxy::Replies::pass);
  EXPECT_EQ(text(connections, {"ECHO", big}), big);
}

TEST_F(TlsTest, AnInterruptedWaitLeavesTheConnectionUsable) {
  Connections connections(server_->tls());
  const std::int64_t id = integer(connections, {"CLIENT", "ID"});
  {
    const Signals signals;
    EXPECT_THROW((void)call(connections, {"BLPOP", "nothing:here", "0.3"}, kAmple, [] { return true; }),
                 WaitInterrupted);
  }
  EXPECT_EQ(integer(connections, {"CLIENT", "ID"}), id);
}

TEST_F(TlsTest, NeverGivesALateReplyToTheNextCall) {
  Proxy proxy(server_->port());
  Connections connections(behind(proxy));
  (void)call(connections, {"PING"});
  for (int round = 0; round < 5; ++round) {
    const std::string late = "late " + std::to_string(round);
    proxy.set(Proxy::Replies::hold);
    const auto error = error_of<StoreTimeout>([&] { (void)call(connections, {"ECHO", late}, 20ms); });
    ASSERT_TRUE(error.has_value());
    EXPECT_TRUE(error->maybe_charged());
    proxy.set(Proxy::Replies::pass);
    EXPECT_EQ(text(connections, {"ECHO", "in time"}), "in time");
  }
  EXPECT_EQ(proxy.accepted(), 1);
}

TEST_F(TlsTest, ReplacesAnIdleConnectionThatTheServerClosed) {
  Connections connections(server_->tls());
  const std::string id = std::to_string(integer(connections, {"CLIENT", "ID"}));
  EXPECT_EQ(integer(admin_, {"CLIENT", "KILL", "ID", id}), 1);
  EXPECT_NE(std::to_string(integer(connections, {"CLIENT", "ID"})), id);
}

TEST_F(TlsTest, LeavesNothingToBeExecutedOfARequestItCouldNotSendInFull) {
  const TlsServer server(*certificates_);
  Connections connections(server.tls());
  (void)call(connections, {"PING"});
  ::kill(server.server().pid(), SIGSTOP);
  const std::string big(std::size_t{64} << 20U, 'x');
  const auto error = error_of<StoreTimeout>([&] { (void)call(connections, {"SET", "big", big}, 1s); });
  ::kill(server.server().pid(), SIGCONT);
  ASSERT_TRUE(error.has_value());
  EXPECT_TRUE(error->maybe_charged());
  EXPECT_EQ(integer(connections, {"EXISTS", "big"}), 0);
}

TEST_F(TlsTest, CountsEveryCallOnceUnderFaults) {
  Proxy proxy(server_->port());
  Connections connections(behind(proxy));
  (void)call(admin_, {"SET", "faults:counter", "0"});
  int acknowledged = 0;
  int unknown = 0;
  constexpr Proxy::Replies kModes[] = {Proxy::Replies::pass, Proxy::Replies::hold, Proxy::Replies::pass,
                                       Proxy::Replies::cut};
  for (int i = 0; i < 120; ++i) {
    if (i % 3 == 0) {
      proxy.set(Proxy::Replies::pass);
      EXPECT_TRUE(eventually([&] { return answers(connections); }));
    }
    proxy.set(kModes[(i / 3) % 4]);
    try {
      (void)call(connections, {"INCR", "faults:counter"}, 50ms);
      ++acknowledged;
    } catch (const StoreError& error) {
      if (error.maybe_charged()) ++unknown;
    }
  }
  EXPECT_TRUE(eventually([&] { return std::stoi(text(admin_, {"GET", "faults:counter"})) >= acknowledged; }));
  EXPECT_LE(std::stoi(text(admin_, {"GET", "faults:counter"})), acknowledged + unknown);
  EXPECT_GT(acknowledged, 40);
  EXPECT_GE(unknown, 20);
}

TEST_F(TlsTest, AServerThatDiesIsUnavailableAndRaisesNoSignal) {
  auto server = std::make_unique<TlsServer>(*certificates_);
  Connections connections(server->tls());
  (void)call(connections, {"PING"});
  server.reset();
  for (int i = 0; i < 3; ++i) {
    const auto error = error_of<StoreUnavailable>([&] { (void)call(connections, {"PING"}); });
    ASSERT_TRUE(error.has_value());
    EXPECT_FALSE(error->maybe_charged());
  }
}

TEST_F(TlsTest, BringsEachThreadItsOwnReplies) {
  Connections connections(server_->tls());
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 8; ++thread) {
    threads.emplace_back([&, thread] {
      if (!echoes(connections, std::to_string(thread) + ":", 200)) ++wrong;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0);
}

TEST_F(TlsTest, AChildUsesASessionOfItsOwnAndLeavesTheParentsAlone) {
  auto connections = std::make_unique<Connections>(server_->tls());
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

TEST_F(TlsTest, ParentAndChildAreBothRightAfterAFork) {
  Connections connections(server_->tls());
  (void)call(connections, {"PING"});
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(echoes(connections, "child", 300) ? 0 : 1);
  EXPECT_TRUE(echoes(connections, "parent", 300));
  int status = -1;
  ::waitpid(pid, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

#ifndef __SANITIZE_ADDRESS__  // its own allocator has locks that a child may never get
TEST_F(TlsTest, AForkUnderOtherThreadsCallsDisturbsNobody) {
  Connections connections(server_->tls());
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

}  // namespace
}  // namespace overlimit::redis::transport
