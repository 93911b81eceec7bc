#include "redis/script_call.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "../limits.hpp"
#include "packing.hpp"

namespace overlimit::redis {
namespace {

using testing::bytes_of;
using testing::fixed_window;
using testing::kMinute;
using testing::packed;
using testing::token_bucket;

class Encoding : public ::testing::Test {
 protected:
  ScriptCall encoded(const std::vector<Charge>& charges, Mode mode = Mode::consume,
                     std::optional<At> now = std::nullopt, bool system_clock = false) {
    return script_call({charges, mode, now, system_clock}, {"ol"}, scripts);
  }

  const Scripts scripts;
  const CompiledPolicy fixed{"fixed", {fixed_window(5, kMinute)}};
  const CompiledPolicy bucket{"bucket", {token_bucket(20, 10)}};
};

// Where the policies begin in a call of that many charges, counted from 1.
constexpr std::int64_t policies_after(std::int64_t charges) { return 25 + 18 * charges; }

// What is sent of a charge: where its policy begins, how many limits it has, the cost and the role.
std::string sent(std::int64_t place, std::uint8_t limits, std::int64_t cost, Role role = Role::enforce) {
  return packed({place}) + bytes_of(limits) + packed({cost}) + bytes_of(role);
}

TEST_F(Encoding, HasAKeyPerCharge) {
  EXPECT_EQ(encoded({{&fixed, "a"}, {&bucket, "b"}}).keys,
            (std::vector<std::string>{"ol1:fixed:a", "ol1:bucket:b"}));
}

TEST_F(Encoding, PacksClockSlackCostAndPolicyOfASingleCharge) {
  const ScriptCall call = encoded({{&fixed, "a", 3}});
  EXPECT_EQ(call.script, &scripts.decide_one);
  EXPECT_EQ(call.arguments, packed({-1, 1'000, kNever.micros(), 3}) + "\1" + fixed.packed());
}

TEST_F(Encoding, PacksRolesOfASingleChargeThatIsNotEnforced) {
  const ScriptCall call = encoded({{&fixed, "a", 3, Role::shadow}});
  EXPECT_EQ(call.script, &scripts.decide_several);
  EXPECT_EQ(call.arguments, packed({-1, 1'000, kNever.micros()}) +
                                sent(policies_after(1), 1, 3, Role::shadow) + fixed.packed());
}

TEST_F(Encoding, KeepsStateLongerTheLessItKnowsTheClock) {
  const auto head = [&](std::optional<At> now, bool system_clock) {
    return encoded({{&fixed, "a"}}, Mode::consume, now, system_clock).arguments.substr(0, 24);
  };
  EXPECT_EQ(head(std::nullopt, false), packed({-1, 1'000, kNever.micros()}));
  EXPECT_EQ(head(77, true), packed({77, 60'000, kNever.micros()}));
  EXPECT_EQ(head(77, false), packed({77, 3'600'000, kNever.micros()}));
  EXPECT_EQ(head(0, false), packed({0, 3'600'000, kNever.micros()}));
}

TEST_F(Encoding, SendsEachPolicyOnceAndSaysPerChargeWhereItBegins) {
  const ScriptCall call = encoded({{&fixed, "a", 1}, {&bucket, "b", 2}, {&fixed, "c", 3}});
  const std::int64_t first = policies_after(3);
  const std::int64_t second = first + std::int64_t(fixed.packed().size());
  EXPECT_EQ(call.arguments, packed({-1, 1'000, kNever.micros()}) + sent(first, 1, 1) + sent(second, 1, 2) +
                                sent(first, 1, 3) + fixed.packed() + bucket.packed());
}

TEST_F(Encoding, TellsTwoPoliciesOfTheSameLimitsApart) {
  const CompiledPolicy other("other", {fixed_window(9, kMinute)});
  const std::string arguments = encoded({{&fixed, "a"}, {&other, "b"}}).arguments;
  EXPECT_EQ(arguments.substr(24 + 2 * 18), fixed.packed() + other.packed());
}

TEST_F(Encoding, SendsRoles) {
  const ScriptCall call = encoded(
      {{&fixed, "a", 7, Role::enforce}, {&fixed, "b", 7, Role::shadow}, {&fixed, "c", 7, Role::on_refusal}});
  EXPECT_EQ(call.script, &scripts.read) << "seven never fit";
  const ScriptCall fitting =
      encoded({{&fixed, "a", 2}, {&fixed, "b", 7, Role::shadow}, {&fixed, "c", 2, Role::on_refusal}});
  const std::int64_t place = policies_after(3);
  EXPECT_EQ(fitting.arguments, packed({-1, 1'000, kNever.micros()}) + sent(place, 1, 2) +
                                   sent(place, 1, 7, Role::shadow) + sent(place, 1, 1, Role::on_refusal) +
                                   fixed.packed());
}

TEST_F(Encoding, OnlyReadsForAPeekACostOfZeroAndWhatNeverFits) {
  for (const ScriptCall& call :
       {encoded({{&fixed, "a"}}, Mode::peek), encoded({{&fixed, "a", 0}}), encoded({{&fixed, "a", 6}}),
        encoded({{&bucket, "a", 1}, {&fixed, "b", INT64_MAX}})}) {
    EXPECT_EQ(call.script, &scripts.read);
    EXPECT_EQ(call.arguments, packed({-1}));
  }
}

TEST_F(Encoding, IsACommandByHashOrWithTheWholeText) {
  const ScriptCall call = encoded({{&fixed, "a"}, {&fixed, "b\r\n"}});
  const std::string tail = "$1\r\n2\r\n$11\r\nol1:fixed:a\r\n$13\r\nol1:fixed:b\r\n\r\n$" +
                           std::to_string(call.arguments.size()) + "\r\n" + call.arguments + "\r\n";
  EXPECT_EQ(call.evalsha(), "*6\r\n$7\r\nEVALSHA\r\n$40\r\n" + call.script->sha1() + "\r\n" + tail);
  EXPECT_EQ(call.eval(), "*6\r\n$4\r\nEVAL\r\n$" + std::to_string(call.script->text().size()) + "\r\n" +
                             call.script->text() + "\r\n" + tail);
}

TEST_F(Encoding, MayChargeWhenSomethingIsSpentAndEverythingCanFit) {
  const auto may = [&](const std::vector<Charge>& charges, Mode mode = Mode::consume) {
    return may_charge({charges, mode});
  };
  EXPECT_TRUE(may({{&fixed, "a", 5}}));
  EXPECT_TRUE(may({{&fixed, "a", 0}, {&fixed, "b", 1}}));
  EXPECT_FALSE(may({{&fixed, "a", 5}}, Mode::peek));
  EXPECT_FALSE(may({{&fixed, "a", 0}, {&fixed, "b", 0}}));
  EXPECT_FALSE(may({{&fixed, "a", 1}, {&fixed, "b", 6}}));
  EXPECT_TRUE(may({{&fixed, "a", 1}, {&fixed, "b", 6, Role::shadow}}));
}

TEST_F(Encoding, SendsHowLongACallerWouldWait) {
  const std::vector<Charge> charges{{&fixed, "a"}};
  const ScriptCall call = script_call({charges, Mode::consume, At(77), true, For(500)}, {"ol"}, scripts);
  EXPECT_EQ(call.arguments.substr(0, 24), packed({77, 60'000, 500}));
}

TEST_F(Encoding, SendsTheNumbersOfAPenaltyBehindThoseOfTheLimits) {
  const CompiledPolicy strict("strict", {fixed_window(5, kMinute)}, testing::penalty({8, 9}, true));
  const std::string arguments = encoded({{&strict, "a"}}).arguments;
  EXPECT_EQ(arguments.substr(33), fixed.packed().substr(0, 57) + "\2\1" + packed({8, 8, 9, 9}));
}

TEST_F(Encoding, OfARefundSendsReceiptsInASecondArgument) {
  const std::vector<Charge> charges{{&fixed, "a", 3}, {&bucket, "b", 2}};
  const std::vector<Receipt> receipts{{At(7), {1, 2, 3}}, {At(8), {4, 5, 6}}};
  const ScriptCall call = refund_call({charges, Mode::consume, At(77), true}, receipts, {"ol"}, scripts);
  EXPECT_EQ(call.keys, (std::vector<std::string>{"ol1:fixed:a", "ol1:bucket:b"}));
  EXPECT_EQ(call.script, &scripts.refund);
  const std::int64_t first = 9 + 18 * 2;
  const std::int64_t second = first + std::int64_t(fixed.packed().size());
  EXPECT_EQ(call.arguments,
            packed({77}) + sent(first, 1, 3) + sent(second, 1, 2) + fixed.packed() + bucket.packed());
  EXPECT_EQ(call.receipts, packed({7, 1, 2, 3, 8, 4, 5, 6}));
  EXPECT_TRUE(call.evalsha().starts_with("*7\r\n")) << "the name, the hash, 2, two keys and two arguments";
}

TEST_F(Encoding, OfALockSendsItsDurationAndNoPolicy) {
  const std::vector<Charge> charges{{&fixed, "a"}, {&fixed, "b"}};
  const ScriptCall call = lock_call({charges, Mode::consume, At(77), true}, For(123), {"ol"}, scripts);
  EXPECT_EQ(call.script, &scripts.lock);
  EXPECT_EQ(call.keys.size(), 2U);
  EXPECT_EQ(call.arguments, packed({77, 60'000, 123}));
}

}  // namespace
}  // namespace overlimit::redis
