// What holds for one caller in the clear and under TLS, whether it blocks a thread or suspends a fiber.
#include <gtest/gtest.h>
#include <signal.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <tuple>

#include "overlimit/errors.hpp"
#include "overlimit/fibers.hpp"
#include "tls_fixture.hpp"

namespace overlimit::redis::transport {
namespace {

class EachCallerTest : public TlsTest, public ::testing::WithParamInterface<std::tuple<bool, bool>> {
 protected:
  [[nodiscard]] static bool is_tls() { return std::get<0>(GetParam()); }
  [[nodiscard]] static Endpoint endpoint() { return endpoint_of(*server_, is_tls()); }
  [[nodiscard]] Fibers* fibers() { return std::get<1>(GetParam()) ? &fibers_ : nullptr; }

 private:
  Fibers fibers_;
};

INSTANTIATE_TEST_SUITE_P(, EachCallerTest, ::testing::Combine(::testing::Bool(), ::testing::Bool()),
                         [](const auto& each) {
                           return std::string(std::get<0>(each.param) ? "Tls" : "InTheClear") +
                                  (std::get<1>(each.param) ? "OnAFiber" : "InAThread");
                         });

TEST_P(EachCallerTest, UsesOneConnectionForAllCalls) {
  Connections connections(endpoint(), fibers());
  const std::int64_t id = integer(connections, {"CLIENT", "ID"});
  for (int i = 0; i < 10; ++i) EXPECT_EQ(integer(connections, {"CLIENT", "ID"}), id);
}

TEST_P(EachCallerTest, MovesMegabytesBothWays) {
  Connections connections(endpoint(), fibers());
  const std::string big(std::size_t{8} << 20U, 'x');
  EXPECT_EQ(text(connections, {"ECHO", big}), big);
}

TEST_P(EachCallerTest, NeverGivesALateReplyToTheNextCall) {
  Proxy proxy(endpoint().port);
  Connections connections(behind(proxy, is_tls()), fibers());
  (void)call(connections, {"PING"});
  for (int round = 0; round < 5; ++round) {
    const std::string late = "late " + std::to_string(round);
    proxy.set(Proxy::Replies::hold);
    error_of<StoreTimeout>([&] { (void)call(connections, {"ECHO", late}, 20ms); });
    proxy.set(Proxy::Replies::pass);
    EXPECT_EQ(text(connections, {"ECHO", "in time"}), "in time");
  }
  EXPECT_EQ(proxy.accepted(), 1);
}

TEST_P(EachCallerTest, ReadsRepliesThatComeByteByByte) {
  Proxy proxy(endpoint().port);
  proxy.set(Proxy::Replies::drip);
  Connections connections(behind(proxy, is_tls()), fibers());
  EXPECT_EQ(text(connections, {"ECHO", "drop by drop"}), "drop by drop");
}

TEST_P(EachCallerTest, GivesUpARequestItCouldNotSendInFull) {
  const TlsServer server(*certificates_);
  Connections connections(endpoint_of(server, is_tls()), fibers());
  (void)call(connections, {"PING"});
  ::kill(server.server().pid(), SIGSTOP);
  const std::string big(std::size_t{16} << 20U, 'x');
  const auto error = error_of<StoreTimeout>([&] { (void)call(connections, {"SET", "big", big}, 1s); });
  ::kill(server.server().pid(), SIGCONT);
  ASSERT_TRUE(error.has_value());
  EXPECT_TRUE(error->maybe_charged());
  EXPECT_EQ(integer(connections, {"EXISTS", "big"}), 0);
}

TEST_P(EachCallerTest, CountsEveryCallOnceUnderFaults) {
  Proxy proxy(endpoint().port);
  Connections connections(behind(proxy, is_tls()), fibers());
  (void)call(admin_, {"SET", "faults:counter", "0"});
  const auto timeout = is_tls() ? 50ms : 20ms;
  int acknowledged = 0;
  int unknown = 0;
  constexpr Proxy::Replies kModes[] = {Proxy::Replies::pass, Proxy::Replies::hold, Proxy::Replies::drip,
                                       Proxy::Replies::cut};
  for (int i = 0; i < 100; ++i) {
    if (i % 3 == 0) {
      proxy.set(Proxy::Replies::pass);
      EXPECT_TRUE(eventually([&] { return answers(connections); }));
    }
    proxy.set(kModes[(i / 3) % 4]);
    try {
      (void)call(connections, {"INCR", "faults:counter"}, timeout);
      ++acknowledged;
    } catch (const StoreError& error) {
      if (error.maybe_charged()) ++unknown;
    }
  }
  EXPECT_TRUE(eventually([&] { return std::stoi(text(admin_, {"GET", "faults:counter"})) >= acknowledged; }));
  EXPECT_LE(std::stoi(text(admin_, {"GET", "faults:counter"})), acknowledged + unknown);
  EXPECT_GT(acknowledged, 5);
  EXPECT_GT(unknown, 20);
}

TEST_P(EachCallerTest, ReplacesAnIdleConnectionThatTheServerClosed) {
  Endpoint on_socket = server_->server().unix_socket();
  on_socket.database = 1;  // another connection than the one that kills
  for (const Endpoint& each : {endpoint(), on_socket}) {
    Connections connections(each, fibers());
    const std::string id = std::to_string(integer(connections, {"CLIENT", "ID"}));
    EXPECT_EQ(integer(admin_, {"CLIENT", "KILL", "ID", id}), 1);
    EXPECT_NE(std::to_string(integer(connections, {"CLIENT", "ID"})), id);
  }
}

TEST_P(EachCallerTest, AServerThatDiesIsUnavailableAndRaisesNoSignal) {
  auto server = std::make_unique<TlsServer>(*certificates_);
  Connections connections(endpoint_of(*server, is_tls()), fibers());
  (void)call(connections, {"PING"});
  server.reset();
  for (int i = 0; i < 3; ++i) {
    const auto error = error_of<StoreUnavailable>([&] { (void)call(connections, {"PING"}); });
    ASSERT_TRUE(error.has_value());
    EXPECT_FALSE(error->maybe_charged());
  }
}

}  // namespace
}  // namespace overlimit::redis::transport
