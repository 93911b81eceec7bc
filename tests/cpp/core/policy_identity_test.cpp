// docs/decisions.md: limiters without a name.
#include "overlimit/policy_identity.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <set>
#include <vector>

#include "../threads.hpp"
#include "overlimit/errors.hpp"

namespace overlimit {
namespace {

using namespace testing;

TEST(PolicyIdentity, ThoseOfOneNameAreEqual) {
  const PolicyIdentity one("login");
  EXPECT_EQ(one, PolicyIdentity("login"));
  EXPECT_EQ(one.digest(), PolicyIdentity("login").digest());
  EXPECT_NE(one.digest(), PolicyIdentity("mail").digest());
  EXPECT_TRUE(one.has_name());
  EXPECT_EQ(one.name(), "login");
}

TEST(PolicyIdentity, ANameThatCannotStandInAKeyIsRefused) {
  for (const char* name : {"", "a b", "a:b", "\xc3\xbc"}) {
    EXPECT_THROW(PolicyIdentity{std::string(name)}, InvalidLimit) << name;
  }
}

TEST(PolicyIdentity, ThoseWithoutANameEqualOnlyTheirCopies) {
  const PolicyIdentity one = PolicyIdentity::unnamed();
  const PolicyIdentity other = PolicyIdentity::unnamed();
  EXPECT_FALSE(one == other);
  EXPECT_NE(one.digest(), other.digest());
  const PolicyIdentity copy = one;  // NOLINT(performance-unnecessary-copy-initialization): it's the subject
  EXPECT_EQ(copy, one);
  EXPECT_EQ(copy.digest(), one.digest());
  EXPECT_FALSE(one.has_name());
  EXPECT_EQ(one.name(), "");
}

TEST(PolicyIdentity, OneWithoutANameEndsWithItsLastCopyAndANameNever) {
  std::optional<PolicyIdentity> one = PolicyIdentity::unnamed();
  std::optional<PolicyIdentity> copy = one;
  const std::uint64_t digest = one->digest();
  one.reset();
  EXPECT_FALSE(PolicyIdentity::has_ended(digest));
  copy.reset();
  EXPECT_TRUE(PolicyIdentity::has_ended(digest));
  EXPECT_FALSE(PolicyIdentity::has_ended(PolicyIdentity("login").digest()));
}

TEST(PolicyIdentity, ADigestIsNeverGivenOutTwice) {
  std::set<std::uint64_t> seen;
  for (int i = 0; i < 10'000; ++i) {
    const PolicyIdentity one = PolicyIdentity::unnamed();
    const PolicyIdentity other = PolicyIdentity::unnamed();
    EXPECT_TRUE(seen.insert(one.digest()).second);
    EXPECT_TRUE(seen.insert(other.digest()).second);
  }
  for (const std::uint64_t digest : seen) ASSERT_TRUE(PolicyIdentity::has_ended(digest));
}

TEST(PolicyIdentity, ManyLiveAtOnce) {
  std::vector<PolicyIdentity> held;
  std::set<std::uint64_t> digests;
  for (int i = 0; i < 100'000; ++i) {
    held.push_back(PolicyIdentity::unnamed());
    digests.insert(held.back().digest());
  }
  EXPECT_EQ(digests.size(), held.size());
  for (const std::uint64_t digest : digests) ASSERT_FALSE(PolicyIdentity::has_ended(digest));
  held.clear();
  for (const std::uint64_t digest : digests) ASSERT_TRUE(PolicyIdentity::has_ended(digest));
}

TEST(PolicyIdentity, ThreadsThatMakeAndEndThemNeverShareOne) {
  constexpr int kThreads = 4;
  std::vector<std::vector<std::uint64_t>> digests(kThreads);
  std::atomic<int> wrong{0};
  in_threads(kThreads, [&](std::ptrdiff_t thread) {
    std::vector<PolicyIdentity> held;
    for (int i = 0; i < 20'000; ++i) {
      held.push_back(PolicyIdentity::unnamed());
      digests[std::size_t(thread)].push_back(held.back().digest());
      if (i % 7 != 6) continue;
      for (const PolicyIdentity& each : held) wrong += PolicyIdentity::has_ended(each.digest()) ? 1 : 0;
      held.clear();
    }
  });
  EXPECT_EQ(wrong, 0);
  std::set<std::uint64_t> all;
  for (const auto& made : digests) all.insert(made.begin(), made.end());
  EXPECT_EQ(all.size(), std::size_t{kThreads} * 20'000);
}

}  // namespace
}  // namespace overlimit
