// Leases that the processes of a host spend as one. What each of these Leases has could be a process's.
#include <gtest/gtest.h>

#include <array>
#include <fstream>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "../../limits.hpp"
#include "../../shared_memory/own_file.hpp"
#ifdef OVERLIMIT_STEPS
#include "../../shared_memory/writes.hpp"
#endif
#include "../../times.hpp"
#include "redis/leases/leases.hpp"
#include "shared_memory/attachments.hpp"

namespace overlimit::redis {
namespace {

using shared_memory::Attachment;
using shared_memory::Attachments;
using testing::kSecond;
using testing::OwnFile;

constexpr Duration kPatience{100'000};

/// What a command answers, after which so much is left in the record, by which it can be told.
LeaseTerms terms(Cost units, std::int64_t remaining, Micros ends_at) {
  return {{At(100), For(10), For(20)},
          For(ends_at),
          units,
          {{remaining, At(100 + kSecond), {At(7), {At(0).micros(), kSecond, 50}}}}};
}

class HostLeasesTest : public ::testing::Test {
 protected:
  struct Process {
    explicit Process(const std::string& path, std::string keyspace = "server") {
      leases.file().name({.name_or_path = path, .warn = [this](auto why) { warnings.push_back(why); }},
                         Location(Endpoint()), std::move(keyspace));
      leases.file().open();
    }
    Leases leases;
    std::vector<std::string> warnings;
  };

  Leases::Request ask(Process& process, Micros now) {
    return process.leases.ask(charge, term, For(now), kPatience);
  }
  void answered(Process& process, std::optional<LeaseTerms> granted, Micros asked_at, Leases::Request request,
                bool is_refused = false) {
    process.leases.answered(charge, std::move(granted), For(asked_at), request, is_refused,
                            For(asked_at + kSecond));
  }
  /// Has it call often, and lease at this time.
  void lease(Process& process, const LeaseTerms& granted, Micros now) {
    answered(process, {}, now - 1000, {});
    const Leases::Request request = ask(process, now);
    ASSERT_GT(request.extra, 0);
    answered(process, granted, now, request);
  }
  static Cost rest(Process& process, Micros now) {
    Cost units = 0;
    for (const auto& each : process.leases.releases().take_due(For(now))) units += each.units;
    return units;
  }
  Cost left(Process& process) {
    const auto found = process.leases.find(charge);
    return found == nullptr ? -1 : found->left();
  }
  bool take(Process& process, Cost units) {
    Cost left = 0;
    const auto found = process.leases.find(charge);
    return found != nullptr && found->take(units, left);
  }
  HostLeases::Bucket& bucket() {
    HostLeases& host = *one.leases.file().leases();
    const std::string& keyspace = one.leases.file().keyspace();
    return host.bucket_of(host.name_of(keyspace, "api", "a", policy.limits_digest()));
  }
  std::string of_the_same_bucket() {
    HostLeases& host = *one.leases.file().leases();
    for (int i = 0;; ++i) {
      std::string identifier = std::to_string(i);
      const HostName name = host.name_of(one.leases.file().keyspace(), "api", identifier, 0);
      if (&host.bucket_of(name) == &bucket()) return identifier;
    }
  }
  /// From this number on, with other keys that are asked for.
  void fill_bucket(std::uint64_t first) {
    for (std::uint64_t i = first; i < HostLeases::kBucketSize; ++i) {
      HostKey& key = bucket().keys[i];
      key.become({{i, 0}, i, i, i});
      key.demand.cold_from = For(5 * kSecond);
    }
  }
  std::uint64_t lapsed(Process& process) { return process.leases.releases().counted(policy.name()).lapsed; }

  const CompiledPolicy policy{"api", {Limit("fixed_window", std::array<std::int64_t, 3>{100, kSecond, 0})}};
  const Charge charge{&policy, "a"};
  const Duration term{kSecond};
  OwnFile file;
  Process one{file.path()};
  Process other{file.path()};
};

TEST_F(HostLeasesTest, AreSpentByAll) {
  lease(one, terms(10, 50, 500'000), 1000);
  EXPECT_EQ(left(other), 10);
  EXPECT_TRUE(take(other, 3));
  EXPECT_TRUE(take(one, 4));
  EXPECT_FALSE(take(other, 4));
  EXPECT_EQ(left(one), 3);
  EXPECT_EQ(other.leases.find(charge)->terms().rows[0].remaining, 50);
  EXPECT_TRUE(other.leases.find(charge)->is_charged_by(one.leases.find(charge)->receipts()));
}

TEST_F(HostLeasesTest, AreSpentNoMoreThanOnceByThreads) {
  lease(one, terms(20'000, 50, 500'000), 1000);
  std::array<Cost, 4> taken{};
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < taken.size(); ++i) {
    threads.emplace_back([&, i] {
      while (take(i % 2 == 0 ? one : other, 3)) taken[i] += 3;
    });
  }
  for (std::thread& each : threads) each.join();
  EXPECT_EQ(taken[0] + taken[1] + taken[2] + taken[3], 19'998);
}

TEST_F(HostLeasesTest, AreAskedForByOneAtATime) {
  answered(one, {}, 0, {});
  const Leases::Request first = ask(one, 1000);
  EXPECT_GT(first.extra, 0);
  EXPECT_EQ(ask(other, 2000).extra, 0);
  answered(other, {}, 2000, {});
  const Leases::Request second = ask(other, 110'000);  // the first one's time is up
  EXPECT_GT(second.extra, 0);
  answered(other, terms(20, 70, 600'000), 110'000, second);
  answered(one, terms(10, 50, 500'000), 1000, first);
  EXPECT_EQ(left(one), 20);
  EXPECT_EQ(rest(one, 110'000), 10) << "what comes late is released at once";
}

TEST_F(HostLeasesTest, HaveWhoReplacesOneReleaseItsRest) {
  lease(one, terms(10, 50, 500'000), 1000);
  EXPECT_TRUE(take(one, 4));
  const Leases::Request request = ask(other, 400'000);
  ASSERT_GT(request.extra, 0);
  answered(other, terms(20, 70, 500'000), 400'000, request);  // ends when the other would have
  EXPECT_EQ(rest(other, 400'000), 6);
  EXPECT_EQ(left(one), 20);
  EXPECT_EQ(rest(one, 499'000), 0);
  EXPECT_EQ(rest(one, 600'000), 0);
  EXPECT_EQ(rest(other, 600'000), 20);
}

TEST_F(HostLeasesTest, NeverLastLongerThanTheyWere) {
  lease(one, terms(10, 50, 500'000), 1000);
  const auto first = one.leases.find(charge);
  EXPECT_LE(first->ends_at(), For(500'000));
  EXPECT_GT(first->ends_at(), For(499'900));
  lease(other, terms(10, 50, 500'000), 300'000);
  EXPECT_EQ(other.leases.find(charge)->ends_at(), first->ends_at());
  Cost left = 0;
  EXPECT_FALSE(first->take(1, left)) << "it is another one, although it ends with the first";
  EXPECT_FALSE(first->refund(1));
  EXPECT_EQ(first->take_rest(), 0);
  EXPECT_EQ(this->left(one), 10);
}

TEST_F(HostLeasesTest, EndForAllWithAReset) {
  lease(one, terms(10, 50, 500'000), 1000);
  EXPECT_TRUE(take(other, 3));
  other.leases.end("api", "a", Rest::forgotten);
  EXPECT_EQ(left(one), -1);
  EXPECT_EQ(rest(one, 600'000) + rest(other, 600'000), 0);
  lease(one, terms(10, 50, 900'000), 700'000);
  other.leases.end_all("api", Rest::forgotten);
  EXPECT_EQ(left(one), -1);
  EXPECT_EQ(rest(one, 900'000) + rest(other, 900'000), 0);
  EXPECT_EQ(lapsed(one) + lapsed(other), 0U);
}

TEST_F(HostLeasesTest, AreReleasedByWhoeverEndsThem) {
  lease(one, terms(10, 50, 500'000), 1000);
  other.leases.end("api", "a", Rest::released);
  EXPECT_EQ(left(one), -1);
  EXPECT_EQ(left(other), -1);
  const auto taken = other.leases.releases().take_due(For(2000));
  ASSERT_EQ(taken.size(), 1U);
  EXPECT_EQ(taken[0].units, 10);
  const LeaseSubject& subject = taken[0].lease->subject();
  EXPECT_EQ(subject.policy, "api");
  EXPECT_EQ(subject.identifier, "a");
  EXPECT_EQ(subject.packed, policy.packed());
  EXPECT_TRUE(taken[0].lease->is_charged_by(std::array{Receipt{At(7), {At(0).micros(), kSecond, 50}}}));
  EXPECT_EQ(rest(one, 600'000), 0);
}

TEST_F(HostLeasesTest, AreReleasedByWhoeverTakesTheirPlaceForAnotherKey) {
  lease(one, terms(10, 50, 500'000), 1000);
  const auto first = one.leases.find(charge);
  const std::string identifier = of_the_same_bucket();
  const Charge next{&policy, identifier};
  fill_bucket(1);
  const Micros later = 2 * kSecond;
  other.leases.answered(next, {}, For(later), {}, false, For(later + kSecond));
  EXPECT_EQ(rest(other, later), 10);
  const Leases::Request request = other.leases.ask(next, term, For(later + 1000), kPatience);
  other.leases.answered(next, terms(10, 50, 500'000), For(later + 1000), request, false,
                        For(later + kSecond));
  ASSERT_TRUE(other.leases.find(next)->is_shared());
  EXPECT_FALSE(first->refund(1)) << "its unit is none of the other key's";
  EXPECT_EQ(first->take_rest(), 0);
  EXPECT_EQ(other.leases.find(next)->left(), 10);
}

TEST_F(HostLeasesTest, TakeNoMoreBackThanTheyHaveRoomFor) {
  lease(one, terms(SharedUnits::kMost, 50, 500'000), 1000);
  const auto found = one.leases.find(charge);
  EXPECT_TRUE(found->refund(SharedUnits::kMost));
  EXPECT_FALSE(found->refund(2));
  EXPECT_TRUE(found->refund(1));
  EXPECT_FALSE(found->refund(1));
  EXPECT_EQ(found->left(), 0xFFFFFFFF);
}

TEST_F(HostLeasesTest, KeepNothingThatWasUnderWayWhenAnotherEndedThem) {
  answered(one, {}, 0, {});
  const Leases::Request request = ask(one, 1000);
  other.leases.end("api", "a", Rest::forgotten);
  answered(one, terms(10, 50, 500'000), 1000, request);
  EXPECT_EQ(left(other), -1);
  EXPECT_EQ(rest(one, 1000), 10);
}

TEST_F(HostLeasesTest, WaitToAskTogether) {
  answered(one, {}, 0, {});
  const Leases::Request request = ask(one, 1000);
  answered(one, {}, 1000, request, true);
  EXPECT_EQ(one.leases.find(charge, term).next_ask_at, For(1000 + kSecond));
  EXPECT_EQ(other.leases.find(charge), nullptr);
  EXPECT_EQ(other.leases.find(charge, term).next_ask_at, For(1000 + kSecond));
}

TEST_F(HostLeasesTest, AreOfOnePlacePolicyIdentifierAndLimits) {
  lease(one, terms(10, 50, 500'000), 1000);
  Process elsewhere(file.path(), "another server");
  EXPECT_EQ(left(elsewhere), -1);
  const CompiledPolicy renamed("api2", {policy.limits()[0].limit});
  const CompiledPolicy changed("api", {Limit("fixed_window", std::array<std::int64_t, 3>{200, kSecond, 0})});
  EXPECT_EQ(other.leases.find({&renamed, "a"}), nullptr);
  EXPECT_EQ(other.leases.find({&changed, "a"}), nullptr);
  EXPECT_EQ(other.leases.find({&policy, "b"}), nullptr);
  EXPECT_NE(other.leases.find({&policy, "a"}), nullptr);
  other.leases.end("api", "b", Rest::forgotten);
  other.leases.end_all("api2", Rest::forgotten);
  EXPECT_EQ(left(one), 10);
}

TEST_F(HostLeasesTest, AreOfOneProcessForPoliciesOfManyLimits) {
  std::vector<Limit> limits;
  for (std::int64_t i = 0; i < 5; ++i) {
    limits.emplace_back("fixed_window", std::array<std::int64_t, 3>{100 + i, (i + 1) * kSecond, 0});
  }
  const CompiledPolicy many("many", limits);
  const Charge asked{&many, "a"};
  LeaseTerms granted = terms(10, 50, 500'000);
  granted.rows.resize(5);
  one.leases.answered(asked, {}, For(0), {}, false, For(kSecond));
  const Leases::Request request = one.leases.ask(asked, term, For(1000), kPatience);
  one.leases.answered(asked, granted, For(1000), request, false, For(kSecond));
  EXPECT_EQ(one.leases.find(asked)->left(), 10);
  EXPECT_FALSE(one.leases.find(asked)->is_shared());
  EXPECT_EQ(other.leases.find(asked), nullptr);
}

TEST_F(HostLeasesTest, AreAllReleasedByTheLastOne) {
  const OwnFile own;
  Process alone(own.path());
  lease(alone, terms(10, 50, 500'000), 1000);
  Process knows_nothing(own.path());
  knows_nothing.leases.end_all();
  EXPECT_EQ(rest(knows_nothing, 2000), 10);
  EXPECT_EQ(rest(alone, 600'000), 0);
}

TEST_F(HostLeasesTest, AreLeftToThoseWhoLeaseFromTheSameKeyspace) {
  const std::string& keyspace = one.leases.file().keyspace();
  const std::string elsewhere = "elsewhere";
  HostLeases& host = *one.leases.file().leases();
  const std::size_t slot = host.processes().own() % shared_memory::kMostProcesses;
  EXPECT_TRUE(host.leases_from(keyspace, slot));
  EXPECT_FALSE(host.leases_from(elsewhere, slot));
  host.leave(elsewhere);
  host.leave(keyspace);
  EXPECT_FALSE(host.leases_from(keyspace, slot));
  for (const char* const each : {"1", "2", "3", "4", "5"}) host.enter(each);
  EXPECT_TRUE(host.leases_from(elsewhere, slot)) << "of so many, not all are known";
}

TEST_F(HostLeasesTest, AreOfOneProcessIfTheFileCannotBeHad) {
  const OwnFile own;
  std::ofstream(own.path()) << "something else";
  Process alone(own.path());
  ASSERT_EQ(alone.warnings.size(), 1U);
  EXPECT_NE(alone.warnings[0].find("each process leases for itself"), std::string::npos) << alone.warnings[0];
  alone.leases.file().open();
  EXPECT_EQ(alone.warnings.size(), 1U);
  lease(alone, terms(10, 50, 500'000), 1000);
  EXPECT_EQ(left(alone), 10);
  EXPECT_FALSE(alone.leases.find(charge)->is_shared());
}

TEST_F(HostLeasesTest, FindNoRoomInABucketAndAreThenOfOneProcess) {
  fill_bucket(0);
  lease(one, terms(10, 50, 500'000), 2000);
  EXPECT_FALSE(one.leases.find(charge)->is_shared());
  EXPECT_EQ(other.leases.find(charge), nullptr);
  // Once those who had the room have become cold, it is free.
  lease(other, terms(10, 50, 9 * kSecond), 8 * kSecond);
  EXPECT_TRUE(other.leases.find(charge)->is_shared());
}

#ifdef OVERLIMIT_STEPS

using testing::Writes;

class HostLeasesCrashes : public HostLeasesTest {
 protected:
  Writes after_each_write(Writes::AfterWrite action) const {
    Attachment& attachment = *Attachments::open(HostLeases::kFiles, file.path(), 0600);
    auto& mapping = attachment.mapping();
    Attachments::release(attachment);
    memory_ = {mapping.base(), mapping.bytes()};
    return Writes(mapping.base(), mapping.bytes(), std::move(action));
  }
  /// What a process sees that finds the file so after everybody else has died: how much was granted and what
  /// is left of it; nothing: no lease. It can always lease anew.
  std::optional<std::array<Cost, 2>> seen_after_death() {
    const OwnFile copy;
    std::ofstream(copy.path(), std::ios::binary)
        .write(reinterpret_cast<const char*>(memory_.data()), static_cast<std::streamsize>(memory_.size()));
    std::filesystem::permissions(copy.path(), std::filesystem::perms(0600));
    Process survivor(copy.path());
    const auto found = survivor.leases.find(charge);
    std::optional<std::array<Cost, 2>> seen;
    if (found != nullptr) {
      EXPECT_EQ(found->subject().identifier, "a");
      EXPECT_EQ(found->terms().rows[0].remaining, found->terms().granted == 10 ? 50 : 70);
      EXPECT_LE(found->ends_at(), For(found->terms().granted == 10 ? 500'000 : 900'000));
      seen = {found->terms().granted, found->left()};
    }
    lease(survivor, terms(30, 90, 990'000), 950'000);
    EXPECT_EQ(left(survivor), 30);
    return seen;
  }

  mutable std::span<const std::byte> memory_;
};

TEST_F(HostLeasesCrashes, InAReplacementLeaveTheOneOrTheOtherOrNone) {
  lease(one, terms(10, 50, 500'000), 1000);
  ASSERT_TRUE(take(one, 4));
  Cost spent = 0;  // of the second, before it is known
  std::size_t writes = 0;
  bool is_replaced = false;
  {
    const Writes stopped = after_each_write([&] {
      ++writes;
      const auto seen = seen_after_death();
      if (!seen) return;
      const auto [granted, left] = *seen;
      EXPECT_TRUE(granted == 20 || !is_replaced) << "after write " << writes;
      is_replaced = granted == 20;
      EXPECT_LE(left, granted == 10 ? 6 : 20 - spent) << "after write " << writes;
    });
    const Leases::Request request = ask(one, 400'000);
    answered(one, terms(20, 70, 900'000), 400'000, request);
    EXPECT_TRUE(take(one, 3));
    spent = 3;
    EXPECT_TRUE(take(one, 2));
    spent = 5;
    one.leases.end("api", "a", Rest::forgotten);
  }
  EXPECT_TRUE(is_replaced);
  EXPECT_GT(writes, 40U);
  EXPECT_EQ(left(other), -1);
}

#endif

}  // namespace
}  // namespace overlimit::redis
