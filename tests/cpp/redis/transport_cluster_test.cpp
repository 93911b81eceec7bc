// A real cluster, seen through a Topology.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <memory>
#include <string>

#include "forks.hpp"
#include "topologies.hpp"

namespace overlimit::redis::transport {
namespace {

class Clusters : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { servers_ = std::make_unique<ClusterServers>(3); }
  static void TearDownTestSuite() { servers_.reset(); }
  Clusters() {
    for (std::size_t i = 0; i < servers_->size(); ++i) (void)call(servers_->admin(i), {"FLUSHALL"});
  }

  static std::unique_ptr<ClusterServers> servers_;  // NOLINT: of the suite
  const std::shared_ptr<Topology> cluster_ = topology_of(servers_->location());
};

std::unique_ptr<ClusterServers> Clusters::servers_;

TEST_F(Clusters, SendEachCallToTheNodeOfItsSlot) {
  EXPECT_TRUE(cluster_->has_slots());
  for (int i = 0; i < 60; ++i) EXPECT_EQ(integer(*cluster_, {"INCR", "key" + std::to_string(i)}), 1);
  std::int64_t all = 0;
  for (std::size_t i = 0; i < servers_->size(); ++i) {
    const std::int64_t keys = integer(servers_->admin(i), {"DBSIZE"});
    EXPECT_GT(keys, 0);
    all += keys;
  }
  EXPECT_EQ(all, 60);
}

TEST_F(Clusters, AnswerThreadsWhileSlotsMoveAway) {
  constexpr int kThreads = 4;
  constexpr int kCalls = 300;
  const auto slot = protocol::key_slot("nothing");
  std::atomic<int> wrong{0};
  std::thread mover([&] {
    for (std::size_t i = 0; i < 12; ++i) servers_->move(slot, i % servers_->size());
    servers_->move(slot, servers_->owner(slot));
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

TEST_F(Clusters, LearnFromAnyOfTheSeeds) {
  ClusterLocation location = servers_->location();
  location.seeds.resize(1);
  location.seeds.insert(location.seeds.begin(), {"127.0.0.1", free_port()});
  const auto cluster = topology_of(location);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(integer(*cluster, {"INCR", "key" + std::to_string(i)}), 1);
}

TEST_F(Clusters, ShowEveryMaster) {
  int shown = 0;
  cluster_->for_each_server(
      [&](const Topology::Server& server) {
        std::string request;
        protocol::append_command(request, {"DBSIZE"});
        EXPECT_TRUE(server(request, {Deadline(kAmple)}).is_integer());
        ++shown;
      },
      {Deadline(kAmple)});
  EXPECT_EQ(shown, 3);
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

TEST_F(Clusters, NeverRepeatACallWhoseOutcomeIsUnknown) {
  ClusterServers own(2);
  const auto cluster = topology_of(own.location());
  const std::size_t owner = own.owner(protocol::key_slot("key"));
  EXPECT_EQ(integer(*cluster, {"INCR", "key"}), 1);
  ::kill(own.server(owner).pid(), SIGSTOP);
  const auto error = error_of<StoreTimeout>([&] { (void)call(*cluster, {"INCR", "key"}, 100ms); });
  ::kill(own.server(owner).pid(), SIGCONT);
  EXPECT_TRUE(error->maybe_charged());
  EXPECT_TRUE(eventually([&] { return text(own.admin(owner), {"GET", "key"}) == "2"; }));
  EXPECT_EQ(integer(*cluster, {"INCR", "key"}), 3);
}

TEST_F(Clusters, AskEveryNodeWhoServesASlotThatOneDoesNotKnow) {
  const auto slot = protocol::key_slot("key");
  const std::size_t owner = servers_->owner(slot);
  ClusterLocation location = servers_->location();
  std::rotate(location.seeds.begin(), location.seeds.begin() + static_cast<std::ptrdiff_t>(owner) + 1,
              location.seeds.end());
  for (std::size_t i = 0; i < servers_->size(); ++i) {
    if (i != owner) (void)call(servers_->admin(i), {"CLUSTER", "DELSLOTS", std::to_string(slot)});
  }
  EXPECT_EQ(integer(*topology_of(location), {"INCR", "key"}), 1);
  servers_->move(slot, owner);
}

TEST_F(Clusters, FailAtTheDeadlineWithASlotThatNobodyServes) {
  ClusterServers own(1);
  const auto cluster = topology_of(own.location());
  (void)call(own.admin(0), {"CLUSTER", "DELSLOTS", std::to_string(protocol::key_slot("key"))});
  const auto before = Deadline::Clock::now();
  const auto error = error_of<StoreUnavailable>([&] { (void)call(*cluster, {"INCR", "key"}, 400ms); });
  const auto took = Deadline::Clock::now() - before;
  EXPECT_FALSE(error->maybe_charged());
  EXPECT_GE(took, 200ms);
  EXPECT_LE(took, 4s);
}

TEST_F(Clusters, AreFoundAnewInAChild) {
  (void)call(*cluster_, {"INCR", "key"});
  EXPECT_TRUE(in_child([&] { return integer(*topology_of(servers_->location()), {"INCR", "key"}) == 2; }));
  EXPECT_EQ(integer(*cluster_, {"INCR", "key"}), 3);
}

TEST_F(Clusters, OfNobodyFailWithNothingSent) {
  const auto cluster = topology_of(ClusterLocation{{{"127.0.0.1", free_port()}}, {}});
  for (int i = 0; i < 3; ++i) {
    const auto error = error_of<StoreUnavailable>([&] { (void)call(*cluster, {"INCR", "key"}); });
    EXPECT_FALSE(error->maybe_charged());
  }
}

}  // namespace
}  // namespace overlimit::redis::transport
