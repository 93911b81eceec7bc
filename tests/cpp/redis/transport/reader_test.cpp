// Who reads a connection on which several callers wait, each of them for one reply or for many.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <latch>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "connections_fixture.hpp"
#include "overlimit/errors.hpp"
#include "redis/transport/connection.hpp"
#include "redis/transport/connector.hpp"
#include "redis/transport/synchronization.hpp"
#include "signals.hpp"

namespace overlimit::redis::transport {
namespace {

using Words = std::vector<std::string>;

/// Far longer than a reply takes, and soon enough to fail of.
constexpr auto kEnough = 5s;

class ReaderTest : public ConnectionsTest {
 protected:
  ReaderTest() {
    UnlockableGuard guard(mutex_);
    while (!connection_->is_established()) (void)connection_->poll(guard, Deadline(kAmple));
    proxy_.set(Proxy::Replies::hold);
  }

  /// The texts of the replies to ECHO, as one caller gets them.
  Words echo(const Words& words, const Interrupted& interrupted = {},
             std::chrono::microseconds timeout = kEnough) {
    std::vector<std::string> encoded(words.size());
    for (std::size_t i = 0; i < words.size(); ++i) protocol::append_command(encoded[i], {"ECHO", words[i]});
    const std::vector<Command> commands = plain_commands(encoded);
    std::vector<std::optional<Reply>> replies(words.size());
    UnlockableGuard guard(mutex_);
    if (words.size() == 1) {
      replies[0] = connection_->call(guard, commands[0], {Deadline(timeout), interrupted});
    } else {
      connection_->call_many(guard, commands, replies, {Deadline(timeout), interrupted});
    }
    Words texts;
    for (const auto& reply : replies) texts.emplace_back(reply->as_text());
    return texts;
  }

  /// The same for a caller that has to be answered.
  Words answered(const Words& words, const Interrupted& interrupted = {}) {
    try {
      return echo(words, interrupted);
    } catch (const StoreError& error) {
      return {error.what()};
    }
  }

  /// Lets the replies pass once it was asked so many times.
  Interrupted release_after(int times) {
    return [this, times]() mutable {
      if (--times == 0) proxy_.set(Proxy::Replies::pass);
      return false;
    };
  }

  bool eventually_calls(std::size_t calls) {
    return eventually([&] {
      const std::lock_guard lock(mutex_);
      return connection_->in_flight() == calls;
    });
  }

  Proxy proxy_{server_->tcp().port};
  std::mutex mutex_;
  std::shared_ptr<Connection> connection_ =
      std::make_shared<Connection>(std::make_shared<Connector>(proxy_.endpoint()), Deadline(kAmple));
};

const Words kMany{"first", "second", "third"};

TEST_F(ReaderTest, ReadsAllItsRepliesHoweverOftenItsWaitEnds) {
  EXPECT_EQ(answered(kMany, release_after(3)), kMany);
}

TEST_F(ReaderTest, ReadsAllItsRepliesUnderSignals) {
  const Signals signals;
  EXPECT_EQ(answered(kMany, release_after(20)), kMany);
}

TEST_F(ReaderTest, ReadsForAllWhoeverItIs) {
  constexpr int kCallers = 6;
  std::latch all_waited(kCallers);
  std::thread release([&] {
    all_waited.wait();
    proxy_.set(Proxy::Replies::pass);
  });
  std::atomic<int> wrong{0};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < kCallers; ++caller) {
    callers.emplace_back([&, caller] {
      const std::string name = std::to_string(caller);
      const Words words = caller % 2 == 0 ? Words{name} : Words{name + "a", name + "b", name + "c"};
      int asked = 0;
      const Interrupted counts = [&] {
        if (++asked == 2) all_waited.count_down();
        return false;
      };
      if (answered(words, counts) != words) ++wrong;
    });
  }
  for (std::thread& caller : callers) caller.join();
  release.join();
  EXPECT_EQ(wrong.load(), 0);
}

TEST_F(ReaderTest, AnswersACallFromWithinAnInterruptionAndWhatItInterrupted) {
  Words inside;
  const Interrupted calls_inside = [&] {
    proxy_.set(Proxy::Replies::pass);
    if (inside.empty()) inside = answered({"inside", "too"});
    return false;
  };
  EXPECT_EQ(answered(kMany, calls_inside), kMany);
  EXPECT_EQ(inside, (Words{"inside", "too"}));
}

TEST_F(ReaderTest, IsAnotherWhileItsOwnCodeRuns) {
  std::latch away{1};
  std::latch back{1};
  Words many;
  std::thread caller([&] {
    bool is_first = true;
    many = answered(kMany, [&] {
      if (std::exchange(is_first, false)) {
        away.count_down();
        back.wait();
      }
      return false;
    });
  });
  away.wait();
  EXPECT_EQ(answered({"other"}, release_after(1)), Words{"other"});
  back.count_down();
  caller.join();
  EXPECT_EQ(many, kMany);
}

/// Has a caller of many leave without its replies, and checks that another who waits gets its own.
class LeavingTest : public ReaderTest {
 protected:
  template <class Error>
  void leave(const Interrupted& interrupted, std::chrono::microseconds timeout) {
    std::optional<Error> error;
    std::thread leaving([&] {
      error = error_of<Error>([&] { (void)echo(kMany, interrupted, timeout); });
      gone_.count_down();
    });
    EXPECT_TRUE(eventually_calls(kMany.size()));
    Words other;
    std::thread staying([&] { other = answered({"other"}); });
    EXPECT_TRUE(eventually_calls(kMany.size() + 1));
    has_company_.store(true);
    gone_.wait();
    proxy_.set(Proxy::Replies::pass);
    leaving.join();
    staying.join();
    ASSERT_TRUE(error.has_value());
    EXPECT_TRUE(error->maybe_charged());
    EXPECT_EQ(other, Words{"other"});
    EXPECT_EQ(answered(kMany), kMany);
  }

  std::latch gone_{1};
  std::atomic<bool> has_company_{false};
};

TEST_F(LeavingTest, InterruptedHandsOver) {
  leave<WaitInterrupted>([this] { return has_company_.load(); }, kEnough);
}

TEST_F(LeavingTest, TimedOutHandsOver) { leave<StoreTimeout>({}, 500ms); }

}  // namespace
}  // namespace overlimit::redis::transport
