#include "redis/leases/leases.hpp"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <thread>
#include <vector>

#include "../../limits.hpp"
#include "../../times.hpp"
#include "redis/leases/lease_release.hpp"
#include "redis/leases/lease_request.hpp"

namespace overlimit::redis {
namespace {

using testing::kSecond;

class LeasesTest : public ::testing::Test {
 protected:
  const CompiledPolicy policy{"api", {Limit("fixed_window", std::array<std::int64_t, 3>{100, kSecond, 0})}};
  const Charge charge{&policy, "a"};
  const Duration term{kSecond};
  Leases leases;

  static constexpr Duration kPatience{100'000};

  static LeaseTerms terms(Cost units, Micros ends_at) {
    return {{At(100), For(10), For(20)},
            For(ends_at),
            units,
            {{50, At(100 + kSecond), {At(7), {At(0).micros(), kSecond, 50}}}}};
  }
  void note(std::optional<LeaseTerms> granted, Micros asked_at, Cost wanted, bool is_refused = false) {
    answered(charge, std::move(granted), asked_at, {wanted, leases.endings()}, is_refused);
  }
  void answered(const Charge& asked, std::optional<LeaseTerms> granted, Micros asked_at,
                const Leases::Request& request, bool is_refused = false) {
    leases.answered(asked, std::move(granted), For(asked_at), request, is_refused, For(asked_at + kSecond));
  }
  Cost ask(Micros now) { return leases.ask(charge, term, For(now), kPatience).extra; }
  Cost rest(Micros now) {
    Cost units = 0;
    for (const auto& each : leases.releases().take_due(For(now))) units += each.units;
    return units;
  }
};

TEST_F(LeasesTest, SpendNoMoreThanWasGranted) {
  const std::shared_ptr<Lease> shared = std::make_shared<Lease>(LeaseSubject(charge), terms(10'000, kSecond));
  std::vector<std::thread> threads;
  std::array<Cost, 4> taken{};
  for (Cost& own : taken) {
    threads.emplace_back([&] {
      for (Cost left = 0; shared->take(3, left); own += 3) {
      }
    });
  }
  for (std::thread& each : threads) each.join();
  EXPECT_EQ(taken[0] + taken[1] + taken[2] + taken[3], 9999);
  EXPECT_EQ(shared->left(), 1);
  EXPECT_EQ(shared->spent(), 9999);
  EXPECT_EQ(shared->take_rest(), 1);
  EXPECT_EQ(shared->take_rest(), 0);
  EXPECT_EQ(shared->spent(), 9999);
}

TEST_F(LeasesTest, AskForWhatIsSpentInALifeAtTheRateSinceTheLastCommand) {
  EXPECT_EQ(ask(0), 0);  // never seen
  note({}, 0, 0);
  EXPECT_EQ(ask(600'000), 0);  // less than twice in a term
  EXPECT_EQ(ask(100'000), 10);
  note(terms(10, 900'000), 100'000, 10);
  Cost left = 0;
  for (int i = 0; i < 9; ++i) EXPECT_TRUE(leases.find(charge)->take(1, left));
  EXPECT_EQ(ask(600'000), 20);  // 10 in half a second
}

TEST_F(LeasesTest, LetOneAskAtATime) {
  note({}, 0, 0);
  EXPECT_EQ(ask(10'000), 16);  // at that rate 100, but no more than so many times what was spent
  EXPECT_EQ(ask(20'000), 0);
  EXPECT_EQ(ask(200'000), 5);  // the other one has not come back
}

TEST_F(LeasesTest, ReleaseOnceWhatIsLeft) {
  note(terms(10, 500), 0, 10);
  Cost left = 0;
  EXPECT_TRUE(leases.find(charge)->take(4, left));
  EXPECT_EQ(leases.releases().counted(policy.name()).held, 6U);
  EXPECT_FALSE(leases.releases().may_be_due(For(499)));
  EXPECT_EQ(rest(499), 0);
  EXPECT_TRUE(leases.releases().may_be_due(For(500)));
  EXPECT_EQ(rest(500), 6);
  EXPECT_EQ(rest(501), 0);
  EXPECT_EQ(leases.releases().counted(policy.name()).held, 0U);
}

TEST_F(LeasesTest, ReleaseTheRestOfALeaseThatAnotherReplaces) {
  note(terms(10, 500), 0, 10);
  note(terms(5, 900), 100, 5);
  EXPECT_EQ(rest(100), 10);
  EXPECT_EQ(leases.find(charge)->left(), 5);
}

TEST_F(LeasesTest, ReleaseWhatIsRefundedToALeaseOfNothing) {
  note(terms(0, 500), 0, 10);
  EXPECT_TRUE(leases.find(charge)->refund(1));
  EXPECT_EQ(rest(499), 0);
  EXPECT_EQ(rest(500), 1);
}

TEST_F(LeasesTest, ForgetWhatAnotherHasReplacedWithIt) {
  for (const bool is_one : {true, false}) {
    note(terms(10, 500), 0, 10);
    const std::shared_ptr<Lease> found = leases.find(charge);
    note(terms(5, 900), 100, 5);
    EXPECT_EQ(leases.releases().counted(policy.name()).held, 15U);
    is_one ? leases.end("api", "a", Rest::forgotten) : leases.end_all("api", Rest::forgotten);
    Cost left = 0;
    EXPECT_FALSE(found->take(1, left));
    EXPECT_EQ(rest(1'000), 0);
    EXPECT_EQ(leases.releases().counted(policy.name()).held, 0U);
    EXPECT_EQ(leases.releases().counted(policy.name()).lapsed, 0U);
  }
}

TEST_F(LeasesTest, EndWithOrWithoutReleasingTheRest) {
  note(terms(10, 500), 0, 10);
  leases.end("api", "a", Rest::released);
  EXPECT_EQ(leases.find(charge), nullptr);
  EXPECT_EQ(rest(0), 10);
  note(terms(10, 500), 0, 10);
  leases.end("api", "a", Rest::forgotten);
  EXPECT_EQ(rest(500), 0);
  const LeaseCounts counts = leases.releases().counted(policy.name());
  EXPECT_EQ(counts.granted, 20U);
  EXPECT_EQ(counts.held + counts.lapsed, 0U);
}

TEST_F(LeasesTest, KeepNothingThatWasUnderWayWhenTheyEnded) {
  const std::uint32_t before = leases.endings();
  leases.end("api", "a", Rest::forgotten);
  answered(charge, terms(10, 500), 0, {10, before});
  EXPECT_EQ(leases.find(charge), nullptr);
  EXPECT_EQ(rest(0), 10);
}

TEST_F(LeasesTest, WaitToAskOnceRefusedUntilSomethingIsGranted) {
  note({}, 0, 8, true);
  EXPECT_EQ(leases.find(charge, term).next_ask_at, kSecond);
  note({}, kSecond, 8, true);
  EXPECT_EQ(leases.find(charge, term).next_ask_at, 2 * kSecond);
  note(terms(4, 3 * kSecond), 2 * kSecond, 8);
  EXPECT_EQ(leases.find(charge, term).next_ask_at, 0);
}

TEST_F(LeasesTest, WaitToAskNoLongerThanTheyAreAskedAbout) {
  note({}, 0, 8, true);
  EXPECT_EQ(leases.find(charge, For(kSecond / 10)).next_ask_at, kSecond / 10);
}

TEST_F(LeasesTest, HaveCheaperCallsAndOtherLimitsAskAtOnce) {
  const CompiledPolicy other("api", {Limit("fixed_window", std::array<std::int64_t, 3>{200, kSecond, 0})});
  answered({&policy, "a", 3}, {}, 0, {8}, true);
  EXPECT_EQ(leases.find({&policy, "a", 3}, term).next_ask_at, kSecond);
  EXPECT_EQ(leases.find({&policy, "a", 4}, term).next_ask_at, kSecond);
  EXPECT_EQ(leases.find({&policy, "a", 2}, term).next_ask_at, 0);
  EXPECT_EQ(leases.find({&other, "a", 3}, term).next_ask_at, 0);
}

TEST_F(LeasesTest, KnowOnlySoManyKeys) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i <= LeaseKeys::kMostKeys; ++i) names.push_back(std::to_string(i));
  for (const std::string& each : names) {
    answered({&policy, each}, {}, 1000, {});
  }
  EXPECT_TRUE(leases.is_wanted({&policy, names.front()}, term, For(2000)));
  EXPECT_FALSE(leases.is_wanted({&policy, names.back()}, term, For(2000)));
  // Once the others have become cold there is room.
  answered({&policy, names.back()}, {}, 3 * kSecond, {});
  EXPECT_TRUE(leases.is_wanted({&policy, names.back()}, term, For(3 * kSecond + 1000)));
}

TEST_F(LeasesTest, LastNoLongerThanTheLimitsAllow) {
  const auto longest = [](std::string_view algorithm, std::vector<std::int64_t> numbers) {
    return longest_lease(CompiledPolicy("api", {Limit(algorithm, numbers)})).micros();
  };
  EXPECT_EQ(longest("fixed_window", {5, kSecond, 0}), kSecond);
  EXPECT_EQ(longest("sliding_window", {5, kSecond, 20'000}), 20'000);
  EXPECT_EQ(longest("sliding_window_counter", {5, kSecond}), kSecond);
  EXPECT_EQ(longest("leaky_bucket", {5, kSecond, 5}), kSecond);
  EXPECT_EQ(longest("leaky_bucket", {4, kSecond, 1000}), 0);
  EXPECT_EQ(longest("paced_leaky_bucket", {5, kSecond, 5, 5}), 0);
  EXPECT_EQ(longest("sliding_log", {5, kSecond}), 0);
  EXPECT_EQ(longest("token_bucket", {5, kSecond, kSecond, 5, 1, 0, 0}), kSecond / 10);
  EXPECT_EQ(longest("token_bucket", {5, kSecond, kSecond, 50, 1, 0, 0}), kSecond / 100);
  EXPECT_EQ(longest("token_bucket", {5, testing::kHour, testing::kHour, 5, 1, 0, 0}), 15 * kSecond);
  EXPECT_EQ(longest("token_bucket", {5, kSecond, 1, 5, kSecond, 0, 0}), kSecond);
  EXPECT_EQ(longest("token_bucket", {5, kSecond, kSecond, 5, 1, 0, 5}), 0);  // with debt
  const CompiledPolicy punishing("api", {Limit("fixed_window", std::array<std::int64_t, 3>{5, kSecond, 0})},
                                 testing::penalty({For(kSecond)}));
  EXPECT_EQ(longest_lease(punishing), 0);
}

// Somebody in between answers nonsense: the call behind goes on, and the units are not released twice.
TEST_F(LeasesTest, AreReleasedOnceWhateverIsReplied) {
  StoreClient store{Endpoint{}, {"released"}, For(kSecond)};
  const auto lease = std::make_shared<Lease>(LeaseSubject(charge), terms(5, kSecond));
  LeaseRelease release(store, leases, {lease, 5});
  release.prepare();
  std::optional<protocol::Reply> nonsense = protocol::Reply::string("nonsense");
  EXPECT_NO_THROW(release.arrived(nonsense));
  EXPECT_EQ(leases.releases().counted(policy.name()).returned, 5);
  EXPECT_EQ(rest(2 * kSecond), 0);
  LeaseRelease refused(store, leases, {lease, 5});
  refused.prepare();
  std::optional<protocol::Reply> no_script = protocol::Reply::error("NOSCRIPT No matching script");
  refused.arrived(no_script);
  EXPECT_EQ(rest(2 * kSecond), 5) << "what was not executed goes with the next command";
}

}  // namespace
}  // namespace overlimit::redis
