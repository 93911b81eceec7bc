// Waits that a signal interrupts.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <thread>

#include "connections_fixture.hpp"
#include "overlimit/errors.hpp"
#include "signals.hpp"

namespace overlimit::redis::transport {
namespace {

TEST_F(ConnectionsTest, AnErrorOfTheInterruptionPassesThrough) {
  Connections connections(server_->tcp());
  {
    const Signals signals;
    EXPECT_THROW((void)call(connections, {"BLPOP", "nothing:here", "0.3"}, kAmple,
                            []() -> bool { throw std::domain_error("mine"); }),
                 std::domain_error);
  }
  EXPECT_EQ(text(connections, {"ECHO", "mine"}), "mine");
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

TEST_F(ConnectionsTest, ACallFromWithinAnInterruptionIsAnsweredToo) {
  Connections connections(server_->tcp());
  const Signals signals;
  std::string inner;
  const Interrupted call_inside = [&] {
    inner = text(connections, {"ECHO", "inner"});
    return false;
  };
  EXPECT_TRUE(call(connections, {"BLPOP", "nothing:here", "0.1"}, kAmple, call_inside).is_nil());
  EXPECT_EQ(inner, "inner");
}

}  // namespace
}  // namespace overlimit::redis::transport
