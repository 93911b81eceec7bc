// A real cluster, and a real sentinel with what it watches, seen through a Topology.
#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>

#include "../../fibers/loop.hpp"
#include "../../forks.hpp"
#include "overlimit/fibers.hpp"
#include "topologies.hpp"

namespace overlimit::redis::transport {
namespace {

using overlimit::testing::in_child;

class Clusters : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { servers_ = std::make_unique<ClusterServers>(3); }
  static void TearDownTestSuite() { servers_.reset(); }

  static std::unique_ptr<ClusterServers> servers_;  // NOLINT: of the suite
  const std::shared_ptr<Topology> cluster_ = topology_of(servers_->location());
};

std::unique_ptr<ClusterServers> Clusters::servers_;

TEST_F(Clusters, AnswerThreadsWhileSlotsMoveAway) {
  constexpr int kThreads = 4;
  constexpr int kCalls = 300;
  const auto slot = protocol::key_slot("nothing");
  const std::size_t owner = slot * servers_->size() / protocol::kSlots;
  std::atomic<int> wrong{0};
  std::thread mover([&] {
    for (std::size_t i = 0; i < 12; ++i) servers_->move(slot, i % servers_->size());
    servers_->move(slot, owner);
  });
  in_threads(kThreads, [&](int thread) {
    const std::string own = "counter" + std::to_string(thread);
    for (int i = 1; i <= kCalls; ++i) {
      if (integer(*cluster_, {"INCR", own}) != i) ++wrong;
      if (!call(*cluster_, {"GET", "nothing"}).is_nil()) ++wrong;
    }
  });
  mover.join();
  EXPECT_EQ(wrong.load(), 0);
}

TEST_F(Clusters, AnswerFibersWhileSlotsMoveAway) {
  const auto slot = protocol::key_slot("nowhere");
  const std::size_t owner = slot * servers_->size() / protocol::kSlots;
  int wrong = 0;
  Fibers fibers;
  std::thread mover([&] {
    for (std::size_t i = 0; i < 6; ++i) servers_->move(slot, i % servers_->size());
    servers_->move(slot, owner);
  });
  testing::in_fibers(fibers, 20, [&](int fiber) {
    const auto cluster = topology_of(servers_->location());
    const std::string own = "fibers" + std::to_string(fiber);
    for (int i = 1; i <= 60; ++i) {
      if (integer(*cluster, {"INCR", own}) != i) ++wrong;
      if (!call(*cluster, {"GET", "nowhere"}).is_nil()) ++wrong;
    }
  });
  mover.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(Clusters, ShowTheOthersWhenOneFailsAndThenSayWhichError) {
  int shown = 0;
  const auto fail_first = [&](const Topology::Server&) {
    if (++shown == 1) throw StoreUnavailable("the first");
  };
  const auto error =
      error_of<StoreUnavailable>([&] { cluster_->for_each_server(fail_first, {Deadline(kAmple)}); });
  EXPECT_EQ(shown, 3);
  EXPECT_STREQ(error->what(), "the first");
}

TEST(SentinelTopologies, FollowTheMasterUnderManyThreads) {
  WatchedServers servers;
  const auto watched = topology_of(servers.location());
  std::atomic<bool> over{false};
  std::atomic<std::int64_t> acknowledged{0};
  std::atomic<std::int64_t> unknown{0};
  std::thread switcher([&] {
    servers.fail_over();
    EXPECT_TRUE(eventually([&, before = acknowledged.load()] { return acknowledged.load() > before + 100; }));
    over.store(true);
  });
  in_threads(4, [&](int thread) {
    while (!over.load()) {
      try {
        (void)integer(*watched, {"INCR", "key" + std::to_string(thread)});
        acknowledged.fetch_add(1);
      } catch (const StoreError& error) {
        if (error.maybe_charged()) unknown.fetch_add(1);
      }
      std::this_thread::sleep_for(1ms);
    }
  });
  switcher.join();
  EXPECT_GT(acknowledged.load(), 100);
  EXPECT_LE(unknown.load(), 4) << "at most each thread's call at the switch";
  const std::int64_t now = integer(*watched, {"INCR", "key0"});
  EXPECT_EQ(text(servers.replica(), {"GET", "key0"}), std::to_string(now)) << "the one that was promoted";
}

TEST(SentinelTopologies, FollowTheMasterUnderManyFibers) {
  WatchedServers servers;
  Fibers fibers;
  std::atomic<bool> over{false};
  std::int64_t unknown = 0;
  std::int64_t acknowledged_at_the_end = 0;
  std::thread switcher([&] {
    servers.fail_over();
    over.store(true);
  });
  testing::in_fibers(fibers, 20, [&](int fiber) {
    const auto watched = topology_of(servers.location());
    const std::string key = "key" + std::to_string(fiber);
    for (int more = 5; more > 0; more -= over.load() ? 1 : 0) {
      const auto begin = Deadline::Clock::now();
      try {
        (void)integer(*watched, {"INCR", key});
        if (over.load()) ++acknowledged_at_the_end;
      } catch (const StoreError& error) {
        if (error.maybe_charged()) ++unknown;
      }
      EXPECT_LT(Deadline::Clock::now() - begin, kAmple / 4) << "an answer that another call has read";
      pause(1ms, {});
    }
  });
  switcher.join();
  EXPECT_GE(acknowledged_at_the_end, 50);
  EXPECT_LE(unknown, 20) << "at most each fiber's call at the switch";
  EXPECT_GE(std::stoll(text(servers.replica(), {"GET", "key0"})), 1) << "the one that was promoted";
}

TEST(SentinelTopologies, LeaveTheParentsDescriptorsAloneInAChild) {
  WatchedServers servers;
  const auto watched = topology_of(servers.location());
  (void)call(*watched, {"INCR", "key"});
  EXPECT_TRUE(in_child([&] { return integer(*topology_of(servers.location()), {"INCR", "key"}) == 2; }));
  EXPECT_EQ(integer(*watched, {"INCR", "key"}), 3);
  servers.fail_over();
  EXPECT_TRUE(eventually([&] {
    (void)call(*watched, {"SET", "mark", "1"});
    return text(servers.replica(), {"GET", "mark"}) == "1";
  })) << "the parent still hears of it";
}

TEST(SentinelTopologies, FailWhenASentinelTalksNonsense) {
  const Listener nonsense;
  std::thread answerer([&] {
    const Socket peer(::accept4(nonsense.fd(), nullptr, nullptr, SOCK_CLOEXEC));
    (void)peer.send("HTTP/1.1 400 Bad Request\r\n\r\n");
    pollfd polled{peer.fd(), POLLIN, 0};
    while (::poll(&polled, 1, 5000) > 0) {
      char buffer[256];
      const Transfer transfer = peer.receive(buffer, sizeof buffer);
      if (transfer.end || transfer.error) return;
    }
  });
  const auto watched = topology_of(SentinelLocation{{{"127.0.0.1", nonsense.port()}}, "watched", {}});
  EXPECT_FALSE(error_of<StoreUnavailable>([&] { (void)call(*watched, {"INCR", "key"}); })->maybe_charged());
  answerer.join();
}

}  // namespace
}  // namespace overlimit::redis::transport
