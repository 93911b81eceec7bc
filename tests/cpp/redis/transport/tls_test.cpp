// Connections under TLS: the same promises as in the clear, also while TLS itself is still being agreed on.
#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "overlimit/errors.hpp"
#include "signals.hpp"
#include "tls_fixture.hpp"

namespace overlimit::redis::transport {
namespace {

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

}  // namespace
}  // namespace overlimit::redis::transport
