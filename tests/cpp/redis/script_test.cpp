#include "redis/script.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <thread>
#include <vector>

#include "../limits.hpp"

namespace overlimit::redis {
namespace {

using testing::epoch_window;
using testing::fixed_window;
using testing::kMinute;
using testing::kSecond;
using testing::sliding_window;
using testing::token_bucket;

bool holds(const Script& script, std::string_view text) {
  return script.text().find(text) != std::string::npos;
}

TEST(Script, IsKnownByTheSha1OfItsText) {
  EXPECT_EQ(Script("").sha1(), "da39a3ee5e6b4b0d3255bfef95601890afd80709");
  EXPECT_EQ(Script("return 1").sha1(), "e0e1f9fabfc9d4800c877a703b823ac0578ff8db");
  EXPECT_EQ(Script("return 1").text(), "return 1");
}

class Deciding : public ::testing::Test {
 protected:
  const Script& of(const Plan& plan) { return *scripts.single(plan); }
  const Script& of(const Plan& one, const Plan& other) {
    const Plan* const plans[] = {&one, &other};
    return scripts.several(plans);
  }
  Scripts scripts;
};

TEST_F(Deciding, IsTheSameScriptForTheSameShape) {
  const Plan one("a", {fixed_window(1, kMinute), token_bucket(2, 1)});
  const Plan other("b", {token_bucket(9, 100, "named"), epoch_window(1000, kSecond)});
  EXPECT_EQ(&of(one), &of(other));
}

TEST_F(Deciding, IsAnotherScriptForAnotherShape) {
  const std::set<const Script*> made{
      &of(Plan("p", {fixed_window(1, kMinute)})),
      &of(Plan("p", {sliding_window(1, kMinute)})),
      &of(Plan("p", {fixed_window(1, kMinute), fixed_window(1, kSecond)})),
      &of(Plan("p", {fixed_window(1, kMinute)}), Plan("q", {fixed_window(1, kMinute)})),
      &of(Plan("p", {fixed_window(1, kMinute)}), Plan("q", {sliding_window(1, kMinute)})),
  };
  std::set<std::string> sha1s;
  for (const Script* script : made) sha1s.insert(script->sha1());
  EXPECT_EQ(made.size(), 5U);
  EXPECT_EQ(sha1s.size(), 5U);
}

TEST_F(Deciding, DoesNotConfuseOnePolicyOfTwoLimitsWithTwoOfOne) {
  const Plan fixed("p", {fixed_window(1, kMinute)});
  const Plan sliding("q", {sliding_window(1, kMinute)});
  const Plan both("p", {fixed_window(1, kMinute), sliding_window(1, kMinute)});
  EXPECT_NE(&of(fixed, sliding), &of(both));
}

TEST_F(Deciding, IsAnotherScriptForSeveralCharges) {
  const Plan plan("p", {fixed_window(1, kMinute)});
  const Plan* const plans[] = {&plan};
  EXPECT_NE(&scripts.several(plans), &of(plan));
  EXPECT_EQ(&scripts.several(plans), &scripts.several(plans));
}

TEST_F(Deciding, HoldsOnlyTheAlgorithmsItNeeds) {
  const Script& script = of(Plan("p", {sliding_window(1, kMinute)}));
  EXPECT_TRUE(holds(script, "-- Sliding window."));
  EXPECT_FALSE(holds(script, "-- Fixed window."));
  EXPECT_FALSE(holds(script, "-- Token bucket."));
}

TEST_F(Deciding, HasAStepPerLimitWhereItsNumbersAre) {
  const Script& script = of(Plan("p", {sliding_window(1, kMinute), sliding_window(1, kSecond)}));
  EXPECT_TRUE(holds(script, "  do\n    local at = part + 0\n    -- Sliding window."));
  EXPECT_TRUE(holds(script, "  do\n    local at = part + 32\n    -- Sliding window."));
  EXPECT_FALSE(holds(script, "local at = part + 64"));
}

TEST_F(Deciding, MakesNoFunctions) {
  const Plan plan("p", {sliding_window(1, kMinute), token_bucket(1, 1)}, Penalty{{1}});
  EXPECT_FALSE(holds(of(plan), "function"));
  EXPECT_FALSE(holds(of(plan, Plan("q", {fixed_window(1, kMinute)})), "function"));
}

TEST_F(Deciding, HoldsNeitherNamesNorNumbersOfAPolicy) {
  const Script& script = of(Plan("payments", {fixed_window(987654321, 123456789, "limit-name")}));
  for (const char* own : {"payments", "limit-name", "987654321", "123456789"})
    EXPECT_FALSE(holds(script, own)) << own;
}

TEST_F(Deciding, GivesReferencesThatStayValid) {
  const Plan first("p", {fixed_window(1, kMinute)});
  const Script& script = of(first);
  std::vector<Limit> limits;
  for (int i = 0; i < 16; ++i) {
    limits.push_back(token_bucket(1, 1));
    of(Plan("p", limits));
  }
  EXPECT_EQ(&of(first), &script);
  EXPECT_EQ(Script(script.text()).sha1(), script.sha1());
}

TEST_F(Deciding, IsMadeOnceHoweverManyThreadsAsk) {
  const Plan plan("p", {fixed_window(1, kMinute), token_bucket(1, 1)});
  std::vector<const Script*> made(8);
  std::vector<std::thread> threads;
  for (const Script*& script : made) threads.emplace_back([&] { script = &of(plan); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(std::set(made.begin(), made.end()).size(), 1U);
}

TEST_F(Deciding, IsPreparedForAPlanAndItsCopies) {
  Plan plan("p", {fixed_window(1, kMinute)});
  EXPECT_EQ(Script::of(plan), nullptr);
  plan.set_prepared(scripts.single(plan));
  EXPECT_EQ(Script::of(plan), &of(plan));
  EXPECT_EQ(Script::of(Plan(plan)), &of(plan));
}

TEST(ReadScript, WritesNothing) {
  const Scripts scripts;
  const Script& script = scripts.reading();
  EXPECT_EQ(&script, &scripts.reading());
  for (const char* command : {"'SET'", "'DEL'", "'EXPIRE'"}) EXPECT_FALSE(holds(script, command)) << command;
  EXPECT_FALSE(holds(script, "local policies"));
}

TEST(LockScript, IsTheSameForEveryPolicy) {
  const Scripts scripts;
  const Script& script = scripts.locking();
  EXPECT_EQ(&script, &scripts.locking());
  EXPECT_FALSE(holds(script, "local policies"));
}

TEST_F(Deciding, IsAnotherScriptWithAPenaltyWhateverItsLevels) {
  const Script& without = of(Plan("p", {fixed_window(1, kMinute)}));
  const Script& with = of(Plan("p", {fixed_window(1, kMinute)}, Penalty{{1, 2, 3}}));
  EXPECT_NE(&with, &without);
  EXPECT_EQ(&with, &of(Plan("q", {fixed_window(1, kMinute)}, Penalty{{4}, true, 5})));
  EXPECT_TRUE(holds(with, "penalty = part + 32\n"));
  EXPECT_FALSE(holds(without, "penalty ="));
}

TEST_F(Deciding, IsAnotherScriptThanOneThatRefunds) {
  const Plan plan("p", {fixed_window(1, kMinute), token_bucket(1, 1)});
  const Plan* const plans[] = {&plan};
  const Script& refunding = scripts.refunding(plans);
  EXPECT_NE(&refunding, &of(plan));
  EXPECT_EQ(&refunding, &scripts.refunding(plans));
  EXPECT_TRUE(
      holds(refunding, "local policies = {\n  {fixed_window_refund, 32, token_bucket_refund, 56},\n}\n"));
}

// Texts with every fragment in them.
class EveryScript : public ::testing::Test {
 protected:
  static std::vector<std::string> texts() {
    static Scripts scripts;
    const Plan plan("p",
                    {fixed_window(1, kMinute), sliding_window(1, kMinute), token_bucket(1, 1),
                     testing::sliding_log(1, kMinute), testing::sliding_window_counter(1, kMinute),
                     testing::leaky_bucket(1, kMinute, 1)},
                    Penalty{{1}});
    const Plan* const plans[] = {&plan};
    return {scripts.reading().text(), scripts.single(plan)->text(), scripts.locking().text(),
            scripts.several(plans).text(), scripts.refunding(plans).text()};
  }
};

TEST_F(EveryScript, NeverPassesNumbersThroughText) {
  for (const std::string& text : texts()) {
    EXPECT_EQ(text.find("tostring"), std::string::npos);
    EXPECT_EQ(text.find("cjson"), std::string::npos);
  }
}

TEST_F(EveryScript, HasAllFragmentsPasted) {
  for (const std::string& text : texts()) EXPECT_EQ(text.find("--[[ "), std::string::npos);
}

TEST_F(EveryScript, IsPlainTextWithUnixLines) {
  for (const std::string& text : texts()) {
    EXPECT_EQ(text.find('\r'), std::string::npos);
    EXPECT_EQ(text.find('\0'), std::string::npos);
    EXPECT_EQ(text.back(), '\n');
  }
}

}  // namespace
}  // namespace overlimit::redis
