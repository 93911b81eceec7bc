// Calls on event loops: many at once, none of which blocks another, and each of which may be ended anywhere.
#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "../../fibers/loop.hpp"
#include "overlimit/errors.hpp"
#include "overlimit/fibers.hpp"
#include "tls_fixture.hpp"
#include "topologies.hpp"

namespace overlimit::redis::transport {
namespace {

using testing::in_fibers;
using testing::on_fiber;
using testing::run_until;

/// How a call on a fiber ended, which it has once there is one.
struct Ended {
  enum class As : std::uint8_t { answered, timed_out, unavailable, refused, interrupted };

  As as = As::answered;
  bool maybe_charged = false;
  Deadline::Clock::time_point at = Deadline::Clock::now();
};

template <class Action>
Ended ended(const Action& action) {
  try {
    action();
    return {Ended::As::answered, true};
  } catch (const StoreTimeout& error) {
    return {Ended::As::timed_out, error.maybe_charged()};
  } catch (const StoreUnavailable& error) {
    return {Ended::As::unavailable, error.maybe_charged()};
  } catch (const StoreError& error) {
    return {Ended::As::refused, error.maybe_charged()};
  } catch (const WaitInterrupted& interruption) {
    return {Ended::As::interrupted, interruption.maybe_charged()};
  }
}

/// A call that is under way.
class UnderWay {
 public:
  UnderWay(Fibers& fibers, const std::function<void()>& action) : fibers_(fibers) {
    Fibers::Task& task = fibers.start([this, action] { ended_ = ended(action); });
    task_ = &task;
  }
  UnderWay(const UnderWay&) = delete;
  UnderWay& operator=(const UnderWay&) = delete;

  void interrupt() {
    if (!ended_) fibers_.interrupt(*task_);
    fibers_.run();
  }
  [[nodiscard]] bool has_ended() const { return ended_.has_value(); }
  [[nodiscard]] Ended await() const {
    EXPECT_TRUE(run_until(fibers_, [this] { return has_ended(); }));
    return ended_.value();
  }

 private:
  Fibers& fibers_;
  std::optional<Ended> ended_;
  Fibers::Task* task_ = nullptr;
};

class FibersCallingTest : public TlsTest, public ::testing::WithParamInterface<bool> {
 protected:
  void SetUp() override { (void)call(admin_, {"FLUSHALL"}); }

  [[nodiscard]] static Endpoint endpoint() { return endpoint_of(*server_, GetParam()); }
  [[nodiscard]] std::int64_t counted(const std::string& key) {
    const Reply reply = call(admin_, {"GET", key});
    return reply.is_nil() ? 0 : std::stoll(std::string(reply.as_text()));
  }
  /// What the server has counted so far.
  [[nodiscard]] std::int64_t statistic(const std::string& name) {
    const std::string info = text(admin_, {"INFO", "stats"});
    return std::stoll(info.substr(info.find(name + ":") + name.size() + 1));
  }

  Fibers fibers_;
};

INSTANTIATE_TEST_SUITE_P(, FibersCallingTest, ::testing::Bool(),
                         [](const auto& each) { return each.param ? "Tls" : "InTheClear"; });

TEST_P(FibersCallingTest, ShareOneConnection) {
  constexpr int kCount = 500;
  const std::int64_t before = statistic("total_connections_received");
  Connections connections(endpoint(), &fibers_);
  int right = 0;
  in_fibers(fibers_, kCount, [&](int fiber) {
    const std::string word = "fiber " + std::to_string(fiber);
    for (int i = 0; i < 3; ++i) {
      if (text(connections, {"ECHO", word}) == word) ++right;
    }
  });
  EXPECT_EQ(right, 3 * kCount);
  EXPECT_EQ(statistic("total_connections_received"), before + 1);
}

TEST_P(FibersCallingTest, SendTogetherWhatTheyAskTogether) {
  Connections connections(endpoint(), &fibers_);
  (void)call(connections, {"PING"});
  const std::int64_t before = statistic("total_reads_processed");
  in_fibers(fibers_, 400, [&](int) { (void)call(connections, {"PING"}); });
  const std::int64_t taken = statistic("total_reads_processed") - before;
  EXPECT_GE(taken, 2) << "one of them by the question";
  EXPECT_LT(taken, 200);
}

TEST_P(FibersCallingTest, MoveMegabytesBesideOneAnother) {
  Connections connections(endpoint(), &fibers_);
  in_fibers(fibers_, 6, [&](int fiber) {
    const std::string big(std::size_t{2} << 20U, static_cast<char>('a' + fiber));
    EXPECT_TRUE(text(connections, {"ECHO", big}) == big);
    EXPECT_EQ(text(connections, {"ECHO", "small"}), "small");
  });
}

TEST_P(FibersCallingTest, HaveConnectionsOfTheirLoopUntilItEnds) {
  const std::int64_t before = clients_of(admin_);
  Connections of_threads(endpoint());
  const std::int64_t id = integer(of_threads, {"CLIENT", "ID"});
  {
    Fibers others;
    Connections here(endpoint(), &fibers_);
    Connections also_here(endpoint(), &fibers_);
    Connections there(endpoint(), &others);
    const std::int64_t id_here = integer(here, {"CLIENT", "ID"});
    const std::int64_t id_there = integer(there, {"CLIENT", "ID"});
    EXPECT_EQ(integer(also_here, {"CLIENT", "ID"}), id_here);
    EXPECT_NE(id_here, id);
    EXPECT_NE(id_there, id);
    EXPECT_NE(id_here, id_there);
    EXPECT_EQ(clients_of(admin_), before + 3);
  }
  EXPECT_TRUE(eventually([&] { return clients_of(admin_) == before + 1; }));
}

TEST_P(FibersCallingTest, TimeOutEachAtItsOwnDeadline) {
  Proxy proxy(endpoint().port);
  Connections connections(behind(proxy, GetParam()), &fibers_);
  (void)call(connections, {"PING"});
  proxy.set(Proxy::Replies::hold);
  const auto start = Deadline::Clock::now();
  in_fibers(fibers_, 6, [&](int fiber) {
    const auto timeout = fiber * 30ms;
    const Ended end = ended([&] { (void)call(connections, {"INCR", "fibers:late"}, timeout); });
    EXPECT_EQ(end.as, Ended::As::timed_out);
    EXPECT_GE(end.at, start + timeout);
    EXPECT_LT(end.at, start + timeout + kGrace);
    EXPECT_EQ(end.maybe_charged, fiber > 0) << "nothing is sent after the deadline";
  });
  proxy.set(Proxy::Replies::pass);
  EXPECT_EQ(text(connections, {"ECHO", "in time"}), "in time");
  EXPECT_EQ(counted("fibers:late"), 5);
  EXPECT_EQ(proxy.accepted(), 1);
}

TEST_P(FibersCallingTest, AreToldWhenTheConnectionIsCutUnderThem) {
  Proxy proxy(endpoint().port);
  Connections connections(behind(proxy, GetParam()), &fibers_);
  (void)call(connections, {"PING"});
  int acknowledged = 0;
  int unknown = 0;
  for (int round = 0; round < 5; ++round) {
    proxy.set(Proxy::Replies::cut);
    in_fibers(fibers_, 50, [&](int) {
      const Ended end = ended([&] { (void)call(connections, {"INCR", "fibers:cut"}); });
      EXPECT_TRUE(end.as == Ended::As::unavailable);
      if (end.maybe_charged) ++unknown;
    });
    proxy.set(Proxy::Replies::pass);
    EXPECT_TRUE(eventually([&] { return answers(connections); }));
    in_fibers(fibers_, 50, [&](int) {
      (void)call(connections, {"INCR", "fibers:cut"});
      ++acknowledged;
    });
  }
  EXPECT_GE(counted("fibers:cut"), acknowledged);
  EXPECT_LE(counted("fibers:cut"), acknowledged + unknown);
  EXPECT_EQ(acknowledged, 250);
  EXPECT_GE(unknown, 5);
}

// Ended at its first wait, its second and so on, up to the last one.
TEST_P(FibersCallingTest, ChargeNothingIfTheyAreInterruptedBeforeAnythingIsSent) {
  int uncharged = 0;
  int unknown = 0;
  for (int waits = 0;; ++waits) {
    Fibers fibers;
    Connections connections(endpoint(), &fibers);
    UnderWay called(fibers, [&] { (void)call(connections, {"INCR", "fibers:interrupted"}); });
    for (int i = 0; i < waits && !called.has_ended(); ++i) {
      EXPECT_TRUE(testing::becomes_readable(fibers.fd()));
      fibers.run();
    }
    if (called.has_ended()) break;
    called.interrupt();
    const Ended end = called.await();
    EXPECT_EQ(end.as, Ended::As::interrupted) << "after " << waits << " waits";
    ++(end.maybe_charged ? unknown : uncharged);
    EXPECT_EQ(text(connections, {"ECHO", "next"}), "next");
    EXPECT_LE(counted("fibers:interrupted"), unknown);
  }
  EXPECT_GE(uncharged, GetParam() ? 2 : 1) << "for the files of TLS, and for the handshake";
  EXPECT_LE(unknown, 3) << "for the answer, perhaps in pieces";
}

TEST_P(FibersCallingTest, HandOverReadingWhenTheReaderIsInterrupted) {
  Proxy proxy(endpoint().port);
  Connections connections(behind(proxy, GetParam()), &fibers_);
  (void)call(connections, {"PING"});
  proxy.set(Proxy::Replies::hold);
  std::deque<UnderWay> calls;
  for (int i = 0; i < 6; ++i) {
    calls.emplace_back(fibers_, [&connections, i] {
      const std::string word = "held " + std::to_string(i);
      EXPECT_EQ(text(connections, {"ECHO", word}), word);
    });
  }
  for (const int i : {0, 3, 1}) {
    calls[static_cast<std::size_t>(i)].interrupt();
    const Ended end = calls[static_cast<std::size_t>(i)].await();
    EXPECT_EQ(end.as, Ended::As::interrupted);
    EXPECT_TRUE(end.maybe_charged);
  }
  proxy.set(Proxy::Replies::pass);
  for (const int i : {2, 4, 5}) EXPECT_EQ(calls[static_cast<std::size_t>(i)].await().as, Ended::As::answered);
  EXPECT_EQ(text(connections, {"ECHO", "next"}), "next");
  EXPECT_EQ(proxy.accepted(), 1);
}

TEST_P(FibersCallingTest, EndWithTheirLoopWhateverTheyWaitFor) {
  Proxy proxy(endpoint().port);
  proxy.set(Proxy::Replies::hold);
  std::vector<Ended> ends;
  {
    Connections silent(behind(proxy, GetParam()));
    auto fibers = std::make_unique<Fibers>();
    Connections connections(behind(proxy, GetParam()), fibers.get());
    for (int i = 0; i < 10; ++i) {
      fibers->start([&] {
        ends.push_back(ended([&] { (void)call(connections, {"INCR", "fibers:ended"}); }));
      });
    }
    fibers->run();
    EXPECT_TRUE(ends.empty());
    fibers.reset();
  }
  EXPECT_EQ(ends.size(), 10U);
  for (const Ended& end : ends) {
    EXPECT_EQ(end.as, Ended::As::interrupted);
    EXPECT_FALSE(end.maybe_charged);
  }
  EXPECT_EQ(counted("fibers:ended"), 0);
}

TEST_P(FibersCallingTest, LetOthersRunWhileAServerIsSilent) {
  Proxy proxy(endpoint().port);
  proxy.set(Proxy::Replies::hold);
  Connections silent(behind(proxy, GetParam()), &fibers_);
  Connections quick(endpoint(), &fibers_);
  const UnderWay held(fibers_, [&] { (void)call(silent, {"PING"}); });
  for (int i = 0; i < 20; ++i) EXPECT_EQ(text(quick, {"ECHO", "quick"}), "quick");
  EXPECT_FALSE(held.has_ended());
  proxy.set(Proxy::Replies::pass);
  EXPECT_EQ(held.await().as, Ended::As::answered);
}

class LoopTest : public TlsTest {
 protected:
  [[nodiscard]] static Endpoint named(const std::string& host) {
    return endpoint_at({host, server_->server().tcp().port}, Endpoint());
  }

  Fibers fibers_;
};

TEST_F(LoopTest, ResolvesNamesInAThread) {
  Connections by_name(named("LOCALHOST"), &fibers_);
  in_fibers(fibers_, 20, [&](int) { EXPECT_EQ(text(by_name, {"PING"}), "PONG"); });
  Connections unknown(named("no-such-host.invalid"), &fibers_);
  const UnderWay asked(fibers_, [&] { (void)call(unknown, {"PING"}, 300ms); });
  const Ended end = asked.await();
  EXPECT_TRUE(end.as == Ended::As::unavailable || end.as == Ended::As::timed_out);
  EXPECT_FALSE(end.maybe_charged);
}

TEST_F(LoopTest, MayStopWaitingForAName) {
  Connections by_name(named("LOCALHOST"), &fibers_);
  UnderWay asked(fibers_, [&] { (void)call(by_name, {"PING"}); });
  EXPECT_FALSE(asked.has_ended());
  asked.interrupt();
  EXPECT_TRUE(asked.has_ended());
  EXPECT_EQ(asked.await().as, Ended::As::interrupted);
  EXPECT_FALSE(asked.await().maybe_charged);
  EXPECT_EQ(text(by_name, {"PING"}), "PONG");
}

TEST_F(LoopTest, SaysWhatIsWrongWithTlsFilesThatAnotherThreadReads) {
  for (const auto& [name, content] : {std::pair{"missing.pem", ""}, {"nonsense.pem", "no certificate\n"}}) {
    Endpoint endpoint = server_->tls();
    endpoint.tls->ca_file = file(name);
    if (*content != '\0') std::ofstream(endpoint.tls->ca_file) << content;
    Connections connections(endpoint, &fibers_);
    const auto error = error_of<StoreConfigError>([&] { (void)call(connections, {"PING"}); });
    ASSERT_TRUE(error.has_value());
    EXPECT_NE(std::string(error->what()).find(name), std::string::npos) << error->what();
  }
}

TEST_F(LoopTest, LetsACallEndThatWaitsForASentinelOrAClusterThatIsSilent) {
  const Listener silent;
  const std::vector<HostPort> addresses{{"127.0.0.1", silent.port()}};
  const Location locations[] = {SentinelLocation{addresses, "watched", {}}, ClusterLocation{addresses, {}}};
  for (const Location& location : locations) {
    const auto ask = [&](std::chrono::microseconds timeout) {
      (void)call(*topology_of(location), {"INCR", "key"}, timeout);
    };
    UnderWay interrupted(fibers_, [&] { ask(kAmple); });
    UnderWay late(fibers_, [&] { ask(100ms); });
    fibers_.run();
    EXPECT_FALSE(interrupted.has_ended());
    interrupted.interrupt();
    EXPECT_EQ(interrupted.await().as, Ended::As::interrupted);
    EXPECT_FALSE(interrupted.await().maybe_charged);
    EXPECT_EQ(late.await().as, Ended::As::timed_out);
    EXPECT_FALSE(late.await().maybe_charged);
  }
}

}  // namespace
}  // namespace overlimit::redis::transport
