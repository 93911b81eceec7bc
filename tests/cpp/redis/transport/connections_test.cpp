// Connections against a real redis-server, directly and through a proxy that misbehaves on command.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <latch>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "connections_fixture.hpp"
#include "overlimit/errors.hpp"
#include "signals.hpp"

namespace overlimit::redis::transport {
namespace {

using State = Breaker::State;

TEST_F(ConnectionsTest, AnswersOverEveryKindOfAddress) {
  Endpoint localhost = server_->tcp();
  localhost.host = "localhost";
  Endpoint by_name = server_->tcp();
  by_name.host = "LOCALHOST";  // resolved in a thread, as any name but localhost
  for (const Endpoint& endpoint : {server_->tcp(), server_->unix_socket(), localhost, by_name}) {
    Connections connections(endpoint);
    EXPECT_EQ(text(connections, {"ECHO", std::string_view("a\0b", 3)}), std::string("a\0b", 3))
        << endpoint.describe();
  }
}

TEST_F(ConnectionsTest, MayBeDestroyedWhileItsThreadsLive) {
  const std::int64_t before = clients();
  auto connections = std::make_unique<Connections>(server_->tcp());
  std::latch called(1);
  std::latch destroyed(1);
  std::thread thread([&] {
    (void)call(*connections, {"PING"});
    called.count_down();
    destroyed.wait();
    Connections another(server_->tcp());
    (void)call(another, {"PING"});
  });
  called.wait();
  EXPECT_EQ(clients(), before + 1);
  connections.reset();
  EXPECT_TRUE(eventually([&] { return clients() == before; }));
  destroyed.count_down();
  thread.join();
}

TEST_F(ConnectionsTest, ClosesTheConnectionsOfAllThreadsAndOpensThemAgain) {
  const std::int64_t before = clients();
  Connections connections(server_->tcp());
  (void)call(connections, {"PING"});
  std::thread([&] { (void)call(connections, {"PING"}); }).join();
  EXPECT_EQ(clients(), before + 1);
  connections.close();
  EXPECT_TRUE(eventually([&] { return clients() == before; }));
  EXPECT_EQ(text(connections, {"PING"}), "PONG");
  EXPECT_EQ(clients(), before + 1);
}

TEST_F(ConnectionsTest, SharesTheConnectionOfAllWhoAskForTheSameServer) {
  const std::int64_t before = clients();
  Connections one(server_->tcp());
  Connections two(server_->tcp());
  EXPECT_EQ(integer(one, {"CLIENT", "ID"}), integer(two, {"CLIENT", "ID"}));
  EXPECT_EQ(clients(), before + 1);
  Endpoint elsewhere = server_->tcp();
  elsewhere.database = 1;
  Connections three(elsewhere);
  (void)call(three, {"PING"});
  EXPECT_EQ(clients(), before + 2);
}

TEST_F(ConnectionsTest, UsesSpareConnectionsBesideOneThatIsBusy) {
  const std::int64_t before = clients();
  Connections connections(server_->tcp());
  (void)call(connections, {"PING"});
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 3; ++thread) {
    threads.emplace_back([&] { (void)call(connections, {"BLPOP", "spare:list", "0"}); });
    ASSERT_TRUE(eventually([&] {
      return text(admin_, {"INFO", "clients"}).find("blocked_clients:" + std::to_string(thread + 1)) !=
             std::string::npos;
    }));
  }
  EXPECT_EQ(clients(), before + 3);
  (void)call(admin_, {"RPUSH", "spare:list", "a", "b", "c"});
  for (std::thread& thread : threads) thread.join();
}

TEST_F(ConnectionsTest, AsksOverTheFirstConnectionWhenNoneCanBeHadBesideIt) {
  Connections connections(server_->tcp());
  (void)call(connections, {"PING"});
  (void)call(admin_, {"CONFIG", "SET", "maxclients", std::to_string(clients())});
  std::thread busy([&] { (void)call(connections, {"BLPOP", "spare:none", "0.3"}); });
  EXPECT_TRUE(eventually([&] {
    return text(admin_, {"INFO", "clients"}).find("blocked_clients:1") != std::string::npos;
  }));
  EXPECT_EQ(text(connections, {"ECHO", "mine"}), "mine");
  EXPECT_EQ(connections.breaker(), Breaker::State::closed);
  busy.join();
  (void)call(admin_, {"CONFIG", "SET", "maxclients", "10000"});
}

TEST_F(ConnectionsTest, LetsACallFinishBeforeClosingUnderIt) {
  Connections connections(server_->tcp());
  std::atomic<std::int64_t> id{0};
  std::thread thread([&] {
    id.store(integer(connections, {"CLIENT", "ID"}));
    EXPECT_EQ(call(connections, {"BLPOP", "close:list", "0"}).as_array()[1].as_text(), "late");
    EXPECT_NE(integer(connections, {"CLIENT", "ID"}), id.load());
  });
  EXPECT_TRUE(eventually([&] {
    return text(admin_, {"CLIENT", "LIST"}).find("cmd=blpop") != std::string::npos;
  }));
  connections.close();
  (void)call(admin_, {"RPUSH", "close:list", "late"});
  thread.join();
}

TEST_F(ConnectionsTest, TellsAMissingSocketFromAPathThatCannotBeOne) {
  Endpoint endpoint;
  endpoint.unix_path = "/nonexistent/redis.sock";
  Connections missing(endpoint);
  error_of<StoreUnavailable>([&] { (void)call(missing, {"PING"}); });
  endpoint.unix_path = std::string(200, 'x');
  Connections too_long(endpoint);
  error_of<StoreConfigError>([&] { (void)call(too_long, {"PING"}); });
}

TEST_F(ConnectionsTest, FailsForAnUnknownHostWithinTheDeadline) {
  Endpoint unknown;
  unknown.host = "no-such-host.invalid";
  Connections connections(unknown);
  const auto start = Deadline::Clock::now();
  try {
    (void)call(connections, {"PING"}, 200ms);
    ADD_FAILURE() << "no error";
  } catch (const StoreError& error) {
    EXPECT_FALSE(error.maybe_charged());
  }
  EXPECT_LT(Deadline::Clock::now() - start, 200ms + kGrace);
}

TEST_F(ConnectionsTest, TimesOutConnectingWithNothingCharged) {
  const Listener full(0);
  Endpoint endpoint = server_->tcp();
  endpoint.port = full.port();
  const Socket filler(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_in address = loopback(full.port());
  ASSERT_EQ(::connect(filler.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  Connections connections(endpoint);
  const auto start = Deadline::Clock::now();
  const auto error = error_of<StoreTimeout>([&] { (void)call(connections, {"PING"}, 150ms); });
  const auto elapsed = Deadline::Clock::now() - start;
  EXPECT_GE(elapsed, 150ms);
  EXPECT_LT(elapsed, 150ms + kGrace);
  ASSERT_TRUE(error.has_value());
  EXPECT_FALSE(error->maybe_charged());
}

TEST_F(ConnectionsTest, SendsNothingAfterTheDeadline) {
  Connections connections(server_->tcp());
  const auto error = error_of<StoreTimeout>([&] {
    (void)call(connections, {"SET", "past:deadline", "1"}, 0us);
  });
  ASSERT_TRUE(error.has_value());
  EXPECT_FALSE(error->maybe_charged());
  EXPECT_EQ(integer(admin_, {"EXISTS", "past:deadline"}), 0);
}

TEST_F(ConnectionsTest, SendsACallThatMayHaveArrivedNoSecondTime) {
  Proxy proxy(server_->tcp().port);
  Connections connections(proxy.endpoint());
  (void)call(connections, {"PING"});
  proxy.set(Proxy::Replies::cut_once);
  const auto error = error_of<StoreUnavailable>([&] { (void)call(connections, {"INCR", "sent:once"}); });
  ASSERT_TRUE(error.has_value());
  EXPECT_TRUE(error->maybe_charged());
  EXPECT_EQ(text(admin_, {"GET", "sent:once"}), "1");
  EXPECT_EQ(integer(connections, {"INCR", "sent:once"}), 2) << "a connection can be had again";
}

TEST_F(ConnectionsTest, GivesUpASilentConnectionAfterOneSecondAndNotBefore) {
  Proxy proxy(server_->tcp().port);
  Connections connections(proxy.endpoint());
  (void)call(connections, {"PING"});
  proxy.set(Proxy::Replies::hold);
  const auto start = Deadline::Clock::now();
  while (connections.breaker() == State::closed && Deadline::Clock::now() - start < kAmple) {
    EXPECT_THROW((void)call(connections, {"PING"}, 100ms), StoreError);
  }
  const auto elapsed = Deadline::Clock::now() - start;
  EXPECT_GE(elapsed, 1s);
  EXPECT_LT(elapsed, 1s + kGrace);
}

TEST_F(ConnectionsTest, OpensWhenHalfOfTheCallsFailAndClosesOnTheSameConnection) {
  Proxy proxy(server_->tcp().port);
  Connections connections(proxy.endpoint());
  (void)call(connections, {"PING"});
  proxy.set(Proxy::Replies::hold);
  int sent = 0;
  for (int i = 0; i < 1000 && connections.breaker() == State::closed; ++i) {
    const auto error = error_of<StoreTimeout>([&] { (void)call(connections, {"PING"}, 1ms); });
    if (error && error->maybe_charged()) ++sent;  // not one whose time was over before
  }
  EXPECT_EQ(sent, 19) << "beside the one that was answered";
  proxy.set(Proxy::Replies::pass);
  EXPECT_TRUE(eventually([&] { return answers(connections); }));
  EXPECT_EQ(proxy.accepted(), 1);
}

TEST_F(ConnectionsTest, RefusesACallBehindThousandsThatWait) {
  Proxy proxy(server_->tcp().port);
  Connections connections(proxy.endpoint());
  (void)call(connections, {"PING"});
  proxy.set(Proxy::Replies::hold);
  const std::vector<Command> many(8192, Command("*1\r\n$4\r\nPING\r\n"));
  std::vector<std::optional<Reply>> replies(many.size());
  error_of<StoreTimeout>([&] { node_of(proxy.endpoint())->call_many(many, replies, {Deadline(300ms)}); });
  const auto error = error_of<StoreUnavailable>([&] { (void)call(connections, {"PING"}); });
  ASSERT_TRUE(error.has_value());
  EXPECT_FALSE(error->maybe_charged());
  EXPECT_EQ(error->what(), "8192 calls already wait for redis at " + proxy.endpoint().describe());
}

TEST_F(ConnectionsTest, SignalsThatDoNotInterruptNeitherEndNorExtendTheWait) {
  Connections connections(server_->tcp());
  const Signals signals;
  int asked = 0;
  const Interrupted go_on = [&asked] { return ++asked < 0; };
  EXPECT_TRUE(call(connections, {"BLPOP", "nothing:here", "0.2"}, kAmple, go_on).is_nil());
  EXPECT_GT(asked, 0);
  const auto start = Deadline::Clock::now();
  error_of<StoreTimeout>([&] { (void)call(connections, {"BLPOP", "nothing:here", "2"}, 100ms, go_on); });
  const auto elapsed = Deadline::Clock::now() - start;
  EXPECT_GE(elapsed, 100ms);
  EXPECT_LT(elapsed, 100ms + kGrace);
}

}  // namespace
}  // namespace overlimit::redis::transport
