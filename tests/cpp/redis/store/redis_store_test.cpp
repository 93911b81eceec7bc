// How long a refunded key lives, and calendars that know nothing of the server's time.
#include "overlimit/redis_store.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <vector>

#include "../../calls.hpp"
#include "../../fibers/loop.hpp"
#include "../../limits.hpp"
#include "live_redis.hpp"
#include "overlimit/errors.hpp"
#include "overlimit/fibers.hpp"

namespace overlimit {
namespace {

using redis::transport::call;
using redis::transport::clients_of;
using redis::transport::eventually;
using redis::transport::integer;
using testing::Answer;
using testing::ask;
using testing::calendar_window;
using testing::charges_of;
using testing::fixed_window;
using testing::in_fibers;
using testing::kMinute;
using testing::on_fiber;

class RedisStores : public ::testing::Test {
 protected:
  /// By the server's clock.
  Answer ask_now(const CompiledPolicy& asked, std::initializer_list<std::string_view> identifiers,
                 Cost cost = 1) {
    return ask(*store, {charges_of(asked, identifiers, cost), Mode::consume});
  }

  redis::LiveRedis live;
  const std::unique_ptr<RedisStore> store{live.store()};
  const CompiledPolicy policy{"p", {fixed_window(5, kMinute)}};
};

TEST_F(RedisStores, LeaveTheTimeToLiveAsItIsInARefund) {
  const Answer answer = ask_now(policy, {"a"}, 2);
  (void)call(live.admin(), {"PEXPIRE", "ol1:p:a", "5000"});
  store->refund({charges_of(policy, {"a"}, 2)}, answer.columns.receipt, {});
  const std::int64_t ttl = integer(live.admin(), {"PTTL", "ol1:p:a"});
  EXPECT_LE(ttl, 5'000);
  EXPECT_GT(ttl, 0);
  EXPECT_EQ(ask_now(policy, {"a"}, 0).decision.remaining, 5);
}

// A calendar of days whose answer to the first question is about long ago.
class LyingCalendars : public RedisStores {
 protected:
  Bounds answer(Instant now) {
    if (asked++ < lies) return {At(0), At(1), At(2)};
    constexpr Micros kDay = 24 * 60 * kMinute;
    const Instant start = now - now.since_epoch() % For(kDay);
    return {start, start + kDay, start + 2 * kDay};
  }

  std::atomic<int> asked = 0;
  int lies = 1;
  const std::shared_ptr<const Calendar> calendar =
      std::make_shared<const Calendar>(Calendar{"days", [this](Instant now) { return answer(now); }});
  const CompiledPolicy days{"days", {calendar_window(5, calendar), fixed_window(9, kMinute)}};
};

TEST_F(LyingCalendars, AreAskedOnceMoreForTheTimeOfTheServer) {
  EXPECT_TRUE(ask_now(days, {"a", "b"}, 2).allowed());
  EXPECT_EQ(asked, 2);
  EXPECT_EQ(ask_now(days, {"a"}, 0).decision.remaining, 3) << "charged once";
  EXPECT_EQ(asked, 2) << "and known from then on";
}

TEST_F(LyingCalendars, ChargeNothingOfACallThatCameTooEarly) {
  const std::vector<Charge> charges{{&policy, "x", 2}, {&days, "a", 2}, {&policy, "y", 2}};
  EXPECT_TRUE(ask(*store, {charges}).allowed());
  EXPECT_EQ(asked, 2);
  EXPECT_EQ(ask_now(policy, {"x", "y"}, 0).columns.remaining, (std::vector<std::int64_t>{3, 3}));
}

TEST_F(LyingCalendars, ThatNeverTellTheTruthAreAnErrorThatWritesNothing) {
  lies = 1'000;
  EXPECT_THROW(ask_now(days, {"a"}), StoreError);
  EXPECT_EQ(asked, 2);
  EXPECT_EQ(live.keys(), 0);
}

// Each loop has a connection of its own; threads use that of admin().
TEST_F(RedisStores, AreUsedOnManyLoops) {
  Fibers loop;
  auto other = std::make_unique<Fibers>();
  const std::int64_t before = clients_of(live.admin());
  const auto hit = [&] { return ask_now(policy, {"a"}).decision.remaining; };
  EXPECT_EQ(on_fiber(loop, hit), 4);
  EXPECT_EQ(on_fiber(*other, hit), 3);
  EXPECT_EQ(hit(), 2);
  EXPECT_EQ(on_fiber(loop, hit), 1);
  EXPECT_EQ(clients_of(live.admin()), before + 2);
  in_fibers(*other, 1, [&](int) { store->close(); });
  EXPECT_TRUE(eventually([&] { return clients_of(live.admin()) == before + 1; }));
  EXPECT_EQ(on_fiber(*other, hit), 0);
  EXPECT_EQ(clients_of(live.admin()), before + 2);
  other.reset();
  EXPECT_TRUE(eventually([&] { return clients_of(live.admin()) == before + 1; }));
  EXPECT_EQ(on_fiber(loop, hit), 0);
}

}  // namespace
}  // namespace overlimit
