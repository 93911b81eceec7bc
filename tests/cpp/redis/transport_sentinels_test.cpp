// A real sentinel and what it watches, seen through a Topology.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>

#include "forks.hpp"
#include "topologies.hpp"

namespace overlimit::redis::transport {
namespace {

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
    }
  });
  switcher.join();
  EXPECT_GT(acknowledged.load(), 100);
  EXPECT_LE(unknown.load(), 4) << "at most each thread's call at the switch";
  const std::int64_t now = integer(*watched, {"INCR", "key0"});
  EXPECT_EQ(text(servers.replica(), {"GET", "key0"}), std::to_string(now)) << "the one that was promoted";
}

TEST(SentinelTopologies, ShowTheMasterAlone) {
  WatchedServers servers;
  const auto watched = topology_of(servers.location());
  EXPECT_FALSE(watched->has_slots());
  (void)call(servers.master(), {"SET", "key", "value"});
  int shown = 0;
  watched->for_each_server(
      [&](const Topology::Server& server) {
        std::string request;
        protocol::append_command(request, {"DBSIZE"});
        EXPECT_EQ(server(request, {Deadline(kAmple)}).as_integer(), 1);
        ++shown;
      },
      {Deadline(kAmple)});
  EXPECT_EQ(shown, 1);
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

TEST(SentinelTopologies, OpenAgainAfterTheyWereClosed) {
  WatchedServers servers;
  const auto watched = topology_of(servers.location());
  (void)call(*watched, {"INCR", "key"});
  watched->close();
  EXPECT_EQ(integer(*watched, {"INCR", "key"}), 2);
}

TEST(SentinelTopologies, EndWithinTheDeadlineWhenSentinelsSayNothing) {
  const Listener silent;
  const auto watched = topology_of(SentinelLocation{{{"127.0.0.1", silent.port()}}, "watched", {}});
  const auto before = Deadline::Clock::now();
  const auto error = error_of<StoreUnavailable>([&] { (void)call(*watched, {"INCR", "key"}, 200ms); });
  EXPECT_FALSE(error->maybe_charged());
  EXPECT_LT(Deadline::Clock::now() - before, 200ms + kGrace);
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
