// The same random histories for both stores: every column of every answer is the same.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "../../calls.hpp"
#include "../../examples.hpp"
#include "../../limits.hpp"
#include "live_redis.hpp"
#include "overlimit/memory_store.hpp"

namespace overlimit {
namespace {

using testing::Answer;
using testing::ask;
using testing::bucket_of;
using testing::Columns;
using testing::epoch_window;
using testing::examples;
using testing::fixed_window;
using testing::interval_bucket;
using testing::leaky_bucket;
using testing::paced_bucket;
using testing::sliding_log;
using testing::sliding_window;
using testing::sliding_window_counter;

/// Limits and penalties that take turns under one policy's name.
struct Candidate {
  const char* name;
  std::vector<std::vector<Limit>> limits;
  std::vector<std::optional<Penalty>> penalties{std::nullopt};
  Micros start = 5'000'000;
};

void PrintTo(const Candidate& candidate, std::ostream* out) { *out << candidate.name; }

struct Spent {
  std::vector<Charge> charges;
  std::vector<Receipt> in_memory;
  std::vector<Receipt> in_redis;
};

void expect_same(const Answer& memory, const Answer& redis) {
  EXPECT_EQ(memory.time, redis.time);
  EXPECT_EQ(memory.columns.status, redis.columns.status);
  EXPECT_EQ(memory.columns.remaining, redis.columns.remaining);
  EXPECT_EQ(memory.columns.retry_after, redis.columns.retry_after);
  EXPECT_EQ(memory.columns.reset_after, redis.columns.reset_after);
  EXPECT_EQ(memory.columns.delay, redis.columns.delay);
  for (std::size_t row = 0; row < memory.columns.receipt.size(); ++row) {
    EXPECT_EQ(memory.columns.receipt[row].created_at != 0, redis.columns.receipt[row].created_at != 0);
    EXPECT_EQ(memory.columns.receipt[row].after, redis.columns.receipt[row].after);
  }
}

class Histories : public ::testing::TestWithParam<Candidate> {
 protected:
  Histories() {
    for (const std::vector<Limit>& limits : GetParam().limits) {
      for (const std::optional<Penalty>& penalty : GetParam().penalties) {
        policies.push_back(std::make_unique<CompiledPolicy>("p", limits, penalty));
      }
    }
    may_go_back = std::ranges::all_of(policies, [&](const auto& policy) {
      return policy->penalty() == nullptr && std::ranges::equal(policy->tags(), policies[0]->tags());
    });
    if (!may_go_back) meta = CompiledPolicy("meta", {fixed_window(3, 2'500)}, testing::penalty({700}));
  }

  std::size_t below(std::size_t bound) { return random() % bound; }

  void let_time_pass() {
    const std::size_t kind = below(40);
    if (kind == 0 && may_go_back) now = std::max<Micros>(0, now - Micros(below(1'500)));
    if (kind == 1) now += Micros(below(6'000));
    if (kind > 1 && kind < 30) now += Micros(below(150));
    now = std::min(now, kMaxTime.micros() - 1);
  }

  const CompiledPolicy& any_plan() { return *policies[below(policies.size())]; }
  std::string_view any_name() { return std::to_array<std::string_view>({"a", "b", "c"})[below(3)]; }

  std::vector<Charge> some_charges() {
    constexpr std::array<Cost, 10> kCosts{0, 1, 1, 1, 1, 2, 2, 3, 5, 9};
    const CompiledPolicy& policy = any_plan();
    std::vector<Charge> charges;
    for (const std::string_view name : {"a", "b", "c"}) {
      if (below(2) == 0) charges.push_back({&policy, name, kCosts[below(kCosts.size())]});
    }
    if (charges.empty()) charges.push_back({&policy, any_name(), 1});
    if (below(6) == 0) charges.push_back({&draft, any_name(), Cost(1 + below(3)), Role::shadow});
    if (below(6) == 0) charges.push_back({&meta, any_name(), 1, Role::on_refusal});
    if (below(8) == 0) charges.back().role = Role::shadow;
    if (below(12) == 0) charges.front().role = Role::on_refusal;
    if (below(8) == 0) {
      for (Charge& charge : charges) charge.role = Role::always;
    } else if (below(12) == 0) {
      charges[below(charges.size())].role = Role::always;
    }
    if (below(200) == 0) charges.back().cost = kExact;
    return charges;
  }

  void hit_or_peek() {
    const std::vector<Charge> charges = some_charges();
    Call call{charges, below(6) == 0 ? Mode::peek : Mode::consume, At(now), false};
    if (below(6) == 0) call.patience = For(static_cast<Micros>(below(1'500)));
    call.shows_present = below(2) == 0;
    note("call", call);
    Answer of_memory = ask(memory, call);
    Answer of_redis = ask(*redis, call);
    expect_same(of_memory, of_redis);
    spent.push_back({charges, std::move(of_memory.columns.receipt), std::move(of_redis.columns.receipt)});
    if (spent.size() > 12) spent.erase(spent.begin());
  }

  void refund() {
    if (spent.empty()) return;
    const Spent& one = spent[below(spent.size())];
    std::vector<Charge> charges = one.charges;
    if (below(2) == 0) {
      for (Charge& charge : charges) charge.cost = Cost(below(std::size_t(charge.cost) + 1));
    }
    const Call call{charges, Mode::consume, At(now), false};
    note("refund", call);
    if (below(2) == 0) {
      memory.refund(call, one.in_memory, {});
      redis->refund(call, one.in_redis, {});
    } else {
      refund_and_look(call, one);
    }
  }

  // What is left is shown for another version of the policy.
  void refund_and_look(const Call& call, const Spent& one) {
    std::vector<Charge> asked = one.charges;
    const CompiledPolicy& plan = any_plan();
    for (Charge& charge : asked) {
      if (charge.policy->identity() == plan.identity()) charge.policy = &plan;
      charge = {charge.policy, charge.identifier, 0};
    }
    Answer of_memory{{}, Columns(pairs_of(asked)), {}};
    Answer of_redis{{}, Columns(pairs_of(asked)), {}};
    Present in_memory{asked, of_memory.columns.rows()};
    Present in_redis{asked, of_redis.columns.rows()};
    memory.refund_showing(call, one.in_memory, &in_memory, {});
    redis->refund_showing(call, one.in_redis, &in_redis, {});
    of_memory.time = in_memory.time;
    of_redis.time = in_redis.time;
    expect_same(of_memory, of_redis);
  }

  void lock() {
    const Charge charge{&any_plan(), any_name()};
    const Call call{std::span(&charge, 1), Mode::consume, At(now), false};
    const auto duration = Micros(1 + below(2'000));
    note("lock", call);
    memory.lock(call, For(duration), {});
    redis->lock(call, For(duration), {});
  }

  void reset() {
    const std::string_view names[] = {any_name()};
    memory.reset(policies[0]->identity(), names, {});
    redis->reset(policies[0]->identity(), names, {});
    history += "\nreset " + std::string(names[0]);
  }

  void note(const char* what, const Call& call) {
    history += std::string("\n") + what + " at " + std::to_string(now) +
               (call.mode == Mode::peek ? " peek" : "") +
               (call.patience < kNever ? " patience " + std::to_string(call.patience.micros()) : "");
    for (const Charge& charge : call.charges) {
      std::size_t version = 0;
      while (version < policies.size() && policies[version].get() != charge.policy) ++version;
      history += " | " + charge.policy->name() + std::to_string(version) + " " +
                 std::string(charge.identifier) + " " + std::to_string(charge.cost) + " role " +
                 std::to_string(int(charge.role));
    }
    if (history.size() > 4'000) history.erase(0, history.find('\n', history.size() - 3'000));
  }

  redis::LiveRedis live;
  MemoryStore memory;
  const std::unique_ptr<RedisStore> redis{live.store()};
  std::vector<std::unique_ptr<CompiledPolicy>> policies;
  // Stores drop expired locks and records of other policies when they like, which a clock that goes back
  // shows.
  bool may_go_back = true;
  const CompiledPolicy draft{"draft", {fixed_window(4, 1'200)}};
  CompiledPolicy meta{"meta", {fixed_window(3, 2'500)}};
  std::vector<Spent> spent;
  std::mt19937 random{20'260'000};
  Micros now = GetParam().start;
  std::string history;
};

TEST_P(Histories, AreAnsweredTheSameByBothStores) {
  for (int step = 0; step < examples(4'000); ++step, let_time_pass()) {
    const std::size_t kind = below(100);
    if (kind < 84) {
      ASSERT_NO_THROW(hit_or_peek()) << history;
    } else if (kind < 95) {
      refund();
    } else if (kind < 97 && GetParam().penalties.size() > 1) {
      lock();
    } else if (kind < 98) {
      reset();
    }
    ASSERT_FALSE(HasFailure()) << "step " << step << history;
  }
}

const std::vector<std::optional<Penalty>> kPenalties{
    std::nullopt,
    testing::penalty({300, 600, 1'200}),
    testing::penalty({300, 600}, true),
    testing::penalty({200}, false, 2'000),
    testing::penalty({250, 500}, true, 0),
};

INSTANTIATE_TEST_SUITE_P(
    Of, Histories,
    ::testing::Values(
        Candidate{"FixedWindows", {{fixed_window(5, 1'000)}, {fixed_window(3, 1'000)}}},
        Candidate{"EpochWindows", {{epoch_window(5, 1'000)}, {epoch_window(8, 1'000)}}},
        Candidate{"SlidingWindows", {{sliding_window(6, 1'000, 50)}, {sliding_window(4, 1'000, 50)}}},
        Candidate{"CoarseSlidingWindows", {{sliding_window(6, 900, 900), sliding_window(9, 900, 300)}}},
        Candidate{"SlidingLogs", {{sliding_log(6, 1'000)}, {sliding_log(9, 1'000)}, {sliding_log(2, 1'000)}}},
        Candidate{"SlidingWindowCounters",
                  {{sliding_window_counter(6, 997)}, {sliding_window_counter(9, 997)}}},
        Candidate{
            "TokenBuckets",
            {{bucket_of(6, 700, 3)}, {bucket_of(4, 700, 3)}, {bucket_of(6, 997, 7)}, {bucket_of(6, 11, 1)}}},
        Candidate{"TokenBucketsInDebt", {{bucket_of(4, 300, 1, 5)}, {bucket_of(2, 300, 1, 9)}}},
        Candidate{"BucketsOfLargeNumbers",
                  {{bucket_of(6, kExact / 10, kExact / 2'000)},
                   {bucket_of(6, kExact / 10 - 1, 4'503'599'627'369)},
                   {bucket_of(7, 3, 1)}}},
        Candidate{"IntervalBuckets", {{interval_bucket(6, 2, 400)}, {interval_bucket(5, 3, 400)}}},
        Candidate{"EpochIntervalBuckets",
                  {{interval_bucket(6, 2, 400, true)}, {interval_bucket(5, 3, 400, true, 4)}}},
        Candidate{"LeakyBuckets",
                  {{leaky_bucket(2, 400, 5)}, {leaky_bucket(1, 400, 5)}, {leaky_bucket(3, 400, 0)}}},
        Candidate{"PacedLeakyBuckets",
                  {{paced_bucket(2, 400, 5, 1)}, {paced_bucket(3, 400, 0, 4)}, {paced_bucket(7, 400, 3, 2)}}},
        Candidate{"MixedPolicies",
                  {{fixed_window(9, 1'000), sliding_log(7, 700), bucket_of(6, 300, 1)},
                   {bucket_of(6, 300, 1), sliding_window_counter(9, 900)},
                   {leaky_bucket(3, 300, 9), sliding_log(7, 700), sliding_window(8, 800, 100)}}},
        Candidate{"PenalizedWindows", {{fixed_window(5, 1'000)}, {fixed_window(7, 1'000)}}, kPenalties},
        Candidate{"AlwaysPenalizedWindows",
                  {{fixed_window(5, 1'000)}, {fixed_window(7, 1'000)}},
                  {kPenalties.begin() + 1, kPenalties.end()}},
        Candidate{
            "PenalizedMixtures",
            {{sliding_log(5, 900), leaky_bucket(2, 300, 3)}, {sliding_log(5, 900), bucket_of(5, 300, 1)}},
            kPenalties},
        Candidate{"LimitsOfNothing",
                  {{fixed_window(0, 1'000)},
                   {sliding_log(0, 1'000)},
                   {leaky_bucket(0, 1'000, 0)},
                   {bucket_of(0, 1, 0)},
                   {sliding_window_counter(0, 1'000)},
                   {fixed_window(3, 1'000)}}},
        Candidate{
            "TheEndOfTime",
            {{fixed_window(9, kMaxPeriod), sliding_log(9, kMaxPeriod), sliding_window_counter(30, kMaxPeriod),
              leaky_bucket(3, kMaxPeriod, 10), interval_bucket(9, 1, kMaxPeriod),
              sliding_window(20, kMaxPeriod, kMaxPeriod / 4'096), bucket_of(9, kExact / 10, 1)},
             {fixed_window(5, 100)}},
            {std::nullopt, testing::penalty({kMaxPeriod, 5}, false, kMaxPeriod)},
            (kMaxTime - For(100'000)).micros()}),
    [](const ::testing::TestParamInfo<Candidate>& candidate) { return std::string(candidate.param.name); });

}  // namespace
}  // namespace overlimit
