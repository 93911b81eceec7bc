#include "redis/wire/script_call.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "../../limits.hpp"
#include "../packing.hpp"
#include "redis/wire/keys.hpp"

namespace overlimit::redis {
namespace {

using testing::fixed_window;
using testing::kMinute;
using testing::packed;
using testing::token_bucket;

class Encoding : public ::testing::Test {
 protected:
  ScriptCall encoded(const std::vector<Charge>& charges, Mode mode = Mode::consume,
                     std::optional<At> now = std::nullopt, bool system_clock = false) {
    const Call call{charges, mode, now, system_clock};
    return script_call(call, keys_of({"ol"}, call), scripts);
  }

  const Scripts scripts;
  const CompiledPolicy fixed{"fixed", {fixed_window(5, kMinute)}};
  const CompiledPolicy bucket{"bucket", {token_bucket(20, 10)}};
};

TEST_F(Encoding, KeepsStateLongerTheLessItKnowsTheClock) {
  const auto head = [&](std::optional<At> now, bool system_clock) {
    return encoded({{&fixed, "a"}}, Mode::consume, now, system_clock).arguments.substr(0, 24);
  };
  EXPECT_EQ(head(std::nullopt, false), packed({-1, 1'000, kNever.micros()}));
  EXPECT_EQ(head(77, true), packed({77, 60'000, kNever.micros()}));
  EXPECT_EQ(head(77, false), packed({77, 3'600'000, kNever.micros()}));
  EXPECT_EQ(head(0, false), packed({0, 3'600'000, kNever.micros()}));
}

TEST_F(Encoding, AsksForWholeValuesByTheSignOfTheSlack) {
  const std::vector<Charge> charges{{&fixed, "a"}};
  const ScriptCall whole = script_call({charges}, {"ol1:fixed:a"}, scripts, Reports::value);
  EXPECT_EQ(whole.arguments.substr(0, 24), packed({-1, -1'000, kNever.micros()}));
  EXPECT_EQ(whole.arguments.size(), encoded(charges).arguments.size());
  EXPECT_EQ(lock_call({charges}, {"ol1:fixed:a"}, For(7), scripts, Reports::value).arguments,
            packed({-1, -1'000, 7}));
}

TEST_F(Encoding, RestoresWhatWasToldAndResetsWithoutIt) {
  const ScriptCall restore = restore_call({&fixed, "a"}, "ol1:fixed:a", At(9), "value", scripts);
  EXPECT_EQ(restore.keys, std::vector<std::string>{"ol1:fixed:a"});
  EXPECT_EQ(restore.arguments, packed({-1, 1'000}) + '\x01' + std::string(fixed.packed()));
  EXPECT_EQ(restore.second, packed({9}) + "value");
  EXPECT_TRUE(restore.evalsha().ends_with("$13\r\n" + packed({9}) + "value\r\n"));
  const ScriptCall reset = reset_call({"a", "b"}, scripts);
  EXPECT_EQ(reset.script, &scripts.restore);
  EXPECT_EQ(reset.keys.size(), 2);
  EXPECT_TRUE(reset.second.empty());
}

TEST_F(Encoding, TakesBackOfAKeyOnlyAsItWasCharged) {
  const std::vector<Charge> charges{{&fixed, "a"}};
  const std::vector<Receipt> receipts(1);
  const auto options = [&](bool shows_present, Of of) {
    return refund_call({charges}, {"ol1:fixed:a"}, receipts, shows_present, scripts, of).arguments[8];
  };
  EXPECT_EQ(options(false, Of::restored_keys), 0);
  EXPECT_EQ(options(true, Of::restored_keys), 1);
  EXPECT_EQ(options(false, Of::keys_as_charged), 2);
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

}  // namespace
}  // namespace overlimit::redis
