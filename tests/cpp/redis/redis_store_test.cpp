// The store on a real server: its clock, its keys, its scripts.
#include "overlimit/redis_store.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "../calls.hpp"
#include "../limits.hpp"
#include "live_redis.hpp"
#include "overlimit/errors.hpp"
#include "packing.hpp"
#include "redis/script.hpp"

namespace overlimit {
namespace {

using redis::transport::call;
using redis::transport::integer;
using redis::transport::text;
using testing::Answer;
using testing::ask;
using testing::bucket_of;
using testing::calendar_window;
using testing::charges_of;
using testing::fixed_window;
using testing::hit;
using testing::kMinute;
using testing::kSecond;
using testing::leaky_bucket;
using testing::sliding_log;
using testing::sliding_window;
using testing::sliding_window_counter;

class RedisStores : public ::testing::Test {
 protected:
  /// By the server's clock.
  Answer ask_now(const Plan& policy, std::initializer_list<std::string_view> identifiers, Cost cost = 1,
                 Mode mode = Mode::consume) {
    return ask(*store, {charges_of(policy, identifiers, cost), mode});
  }
  std::int64_t ttl(std::string_view key) { return integer(live.admin(), {"PTTL", key}); }

  redis::LiveRedis live;
  const std::unique_ptr<RedisStore> store{live.store()};
  const Plan plan{"p", {fixed_window(5, kMinute)}};
};

TEST_F(RedisStores, DecideByTheClockOfTheServer) {
  const auto server_now = [&] {
    const redis::transport::Reply time = call(live.admin(), {"TIME"});
    return std::atoll(std::string(time.as_array()[0].as_text()).c_str()) * kSecond +
           std::atoll(std::string(time.as_array()[1].as_text()).c_str());
  };
  const Micros before = server_now();
  const Answer answer = ask_now(plan, {"a"});
  EXPECT_LE(before, answer.time);
  EXPECT_LE(answer.time, server_now());
  EXPECT_EQ(answer.decision.reset_after, kMinute);
}

TEST_F(RedisStores, KeepKeysForAsLongAsTheirStateAndTheSlackOfTheClock) {
  ask_now(plan, {"server"});
  EXPECT_GT(ttl("ol1:p:server"), 60'000);
  EXPECT_LE(ttl("ol1:p:server"), 61'000);
  hit(*store, plan, {"system"}, 77);
  EXPECT_GT(ttl("ol1:p:system"), 119'000);
  EXPECT_LE(ttl("ol1:p:system"), 120'000);
  ask(*store, {charges_of(plan, {"injected"}, 1), Mode::consume, 77});
  EXPECT_GT(ttl("ol1:p:injected"), 3'659'000);
  EXPECT_LE(ttl("ol1:p:injected"), 3'660'000);
}

TEST_F(RedisStores, KeepKeysForAsLongAsALockIsRemembered) {
  const Plan strict("s", {fixed_window(1, kSecond)}, Penalty{{kMinute}, false, 2 * kMinute});
  ask_now(strict, {"a"});
  ask_now(strict, {"a"});
  EXPECT_GT(ttl("ol1:s:a"), 180'000);
  EXPECT_LE(ttl("ol1:s:a"), 181'000);
  store->lock({charges_of(strict, {"b"}, 1)}, kSecond, {});
  EXPECT_GT(ttl("ol1:s:b"), 1'000);
  EXPECT_LE(ttl("ol1:s:b"), 2'000);
}

TEST_F(RedisStores, LeaveTheTimeToLiveAsItIsInARefund) {
  const Answer answer = ask_now(plan, {"a"}, 2);
  (void)call(live.admin(), {"PEXPIRE", "ol1:p:a", "5000"});
  store->refund({charges_of(plan, {"a"}, 2)}, answer.columns.receipt, {});
  EXPECT_LE(ttl("ol1:p:a"), 5'000);
  EXPECT_GT(ttl("ol1:p:a"), 0);
  EXPECT_EQ(ask_now(plan, {"a"}, 0).decision.remaining, 5);
}

TEST_F(RedisStores, LockAndRefundOnlyWhatIsTheirs) {
  const Answer answer = ask_now(plan, {"a"}, 2);
  for (const char* foreign : {"42", "something else entirely", ""}) {
    (void)call(live.admin(), {"SET", "ol1:p:a", foreign});
    store->refund({charges_of(plan, {"a"}, 2)}, answer.columns.receipt, {});
    EXPECT_EQ(live.value("ol1:p:a"), foreign);
  }
  (void)call(live.admin(), {"DEL", "ol1:p:a"});
  (void)call(live.admin(), {"LPUSH", "ol1:p:a", "x"});
  store->refund({charges_of(plan, {"a"}, 2)}, answer.columns.receipt, {});
  EXPECT_EQ(text(live.admin(), {"TYPE", "ol1:p:a"}), "list");
  store->lock({charges_of(plan, {"a"}, 1)}, kMinute, {});
  EXPECT_EQ(ask_now(plan, {"a"}).status(), Status::locked) << "a lock takes the place of a foreign value";
}

TEST_F(RedisStores, TakeATruncatedValueForNone) {
  const Plan strict("s", {fixed_window(1, kMinute)}, Penalty{{kMinute}});
  ask_now(strict, {"a"});
  ask_now(strict, {"a"});
  const std::string whole = live.value("ol1:s:a");
  for (std::size_t size = 0; size < whole.size(); ++size) {
    (void)call(live.admin(), {"SET", "ol1:s:a", whole.substr(0, size)});
    const Status status = ask_now(strict, {"a"}).status();
    const bool keeps_window = size == 8 + 20 + 24;
    ASSERT_EQ(status, keeps_window ? Status::over : Status::ok) << size;
  }
}

TEST_F(RedisStores, CarryALockAlongWhenLimitsChange) {
  const Plan strict("p", {sliding_log(1, kMinute)}, Penalty{{kMinute}});
  ask_now(strict, {"a"});
  ask_now(strict, {"a"});
  for (const Plan& other :
       {Plan("p", {fixed_window(5, kSecond)}), Plan("p", {bucket_of(5, 1, 1)}, Penalty{{5}}),
        Plan("p", {sliding_log(1, kMinute), fixed_window(5, kSecond)})}) {
    EXPECT_EQ(ask_now(other, {"a"}).status(), Status::locked);
  }
}

TEST_F(RedisStores, ForgetLongIdentifiersTooWhenAPolicyIsReset) {
  const std::string long_one(300, 'x');
  const Plan longer("pp", {fixed_window(5, kMinute)});
  ask_now(plan, {"a", long_one});
  ask_now(longer, {"a", long_one});
  (void)call(live.admin(), {"SET", "ol1:p", "somebody else's"});
  (void)call(live.admin(), {"SET", "ol2:p:a", "of another format"});
  store->reset_all(plan, {});
  EXPECT_EQ(live.keys(), 4);
  EXPECT_EQ(ask_now(longer, {"a", long_one}, 0).decision.remaining, 4);
}

// A calendar of days whose answer to the first question is about long ago.
class LyingCalendars : public RedisStores {
 protected:
  Bounds answer(Micros now) {
    if (asked++ < lies) return {0, 1, 2};
    constexpr Micros kDay = 24 * 60 * kMinute;
    const Micros start = now / kDay * kDay;
    return {start, start + kDay, start + 2 * kDay};
  }

  std::atomic<int> asked = 0;
  int lies = 1;
  const std::shared_ptr<const Calendar> calendar =
      std::make_shared<const Calendar>(Calendar{"days", [this](Micros now) { return answer(now); }});
  const Plan days{"days", {calendar_window(5, calendar), fixed_window(9, kMinute)}};
};

TEST_F(LyingCalendars, AreAskedOnceMoreForTheTimeOfTheServer) {
  EXPECT_TRUE(ask_now(days, {"a", "b"}, 2).allowed());
  EXPECT_EQ(asked, 2);
  EXPECT_EQ(ask_now(days, {"a"}, 0).decision.remaining, 3) << "charged once";
  EXPECT_EQ(asked, 2) << "and known from then on";
}

TEST_F(LyingCalendars, ChargeNothingOfACallThatCameTooEarly) {
  const std::vector<Charge> charges{{&plan, "x", 2}, {&days, "a", 2}, {&plan, "y", 2}};
  EXPECT_TRUE(ask(*store, {charges}).allowed());
  EXPECT_EQ(asked, 2);
  EXPECT_EQ(ask_now(plan, {"x", "y"}, 0).columns.remaining, (std::vector<std::int64_t>{3, 3}));
}

TEST_F(LyingCalendars, ThatNeverTellTheTruthAreAnErrorThatWritesNothing) {
  lies = 1'000;
  EXPECT_THROW(ask_now(days, {"a"}), StoreError);
  EXPECT_EQ(asked, 2);
  EXPECT_EQ(live.keys(), 0);
}

class CachedScripts : public RedisStores {
 protected:
  CachedScripts() { (void)call(live.admin(), {"SCRIPT", "FLUSH"}); }

  std::int64_t cached() {
    const std::string info = text(live.admin(), {"INFO", "memory"});
    constexpr std::string_view kField = "number_of_cached_scripts:";
    return std::atoll(info.c_str() + info.find(kField) + kField.size());
  }
};

TEST_F(CachedScripts, AreTheSameWhateverTheLimitsAndTheTraffic) {
  for (int round = 0; round < 40; ++round) {
    const Plan own("p" + std::to_string(round),
                   {fixed_window(5 + round, kMinute + round), sliding_log(5 + round, kSecond)},
                   Penalty{std::vector<Micros>(std::size_t(1 + round), 100)});
    const std::string name = std::to_string(round);
    const Answer answer = ask_now(own, {name, name + "b"}, 1 + round % 3);
    store->refund({charges_of(own, {name, name + "b"}, 1 + round % 3)}, answer.columns.receipt, {});
    store->lock({charges_of(own, {name}, 1)}, kSecond, {});
    ask_now(own, {name}, round, Mode::peek);
    ask_now(own, {name, name + "c", name + "d"}, round);
  }
  EXPECT_EQ(cached(), 4) << "to decide, to refund, to lock and to read";
}

TEST_F(CachedScripts, AreKnownToTheServerByTheSameHash) {
  const redis::Scripts scripts;
  for (const redis::Script* script :
       {&scripts.decide_one, &scripts.decide_several, &scripts.read, &scripts.refund, &scripts.lock}) {
    EXPECT_EQ(text(live.admin(), {"SCRIPT", "LOAD", script->text()}), script->sha1());
  }
}

TEST_F(CachedScripts, AreSentAgainWhenTheServerHasLostThem) {
  EXPECT_TRUE(ask_now(plan, {"a"}).allowed());
  (void)call(live.admin(), {"SCRIPT", "FLUSH"});
  const Answer answer = ask_now(plan, {"a"});
  EXPECT_EQ(answer.decision.remaining, 3);
  store->refund({charges_of(plan, {"a"}, 1)}, answer.columns.receipt, {});
  EXPECT_EQ(ask_now(plan, {"a"}, 0).decision.remaining, 4);
}

}  // namespace
}  // namespace overlimit
