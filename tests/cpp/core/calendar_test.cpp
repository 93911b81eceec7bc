#include "overlimit/calendar.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <vector>

#include "../limits.hpp"
#include "../threads.hpp"
#include "overlimit/call.hpp"
#include "overlimit/compiled_policy.hpp"
#include "overlimit/errors.hpp"

namespace overlimit {
namespace {

using namespace testing;

// Periods of a thousand microseconds, and how often somebody asked for one.
class Thousands : public ::testing::Test {
 protected:
  std::atomic<int> asked = 0;
  const std::shared_ptr<const Calendar> calendar =
      std::make_shared<const Calendar>(Calendar{"thousand", [this](Instant now) {
                                                  ++asked;
                                                  const Instant start = now - now.since_epoch() % For(1'000);
                                                  return Bounds{start, start + 1'000, start + 2'000};
                                                }});
  const Limit limit = calendar_window(3, calendar);
  const CompiledPolicy policy{"p", {limit, fixed_window(9, kMinute)}};
};

TEST_F(Thousands, GoWithWindowsThatStartWithThemAndWithNothingElse) {
  const auto window = [&](Micros period, int start, bool with) {
    return Limit("fixed_window", std::to_array<std::int64_t>({3, period, start}), std::nullopt,
                 with ? calendar : nullptr);
  };
  EXPECT_NO_THROW(window(0, 2, true));
  EXPECT_THROW(window(0, 2, false), InvalidLimit);
  EXPECT_THROW(window(1, 2, true), InvalidLimit);
  EXPECT_THROW(window(1, 0, true), InvalidLimit);
  EXPECT_THROW(window(1, 1, true), InvalidLimit);
  EXPECT_THROW(Limit("sliding_log", std::to_array<std::int64_t>({3, 1}), std::nullopt, calendar),
               InvalidLimit);
}

TEST_F(Thousands, AreAskedWhenALimitIsDatedAndNotBefore) {
  EXPECT_TRUE(limit.has_calendar());
  EXPECT_EQ(asked, 0);
  EXPECT_EQ(limit.dated(At(2'500)).packed(), (std::vector<std::int64_t>{3, 0, 2, 2'000, 3'000, 4'000}));
  EXPECT_EQ(asked, 1);
}

TEST_F(Thousands, HoldForTheCurrentPeriodAndTheNext) {
  const Limit dated = limit.dated(At(2'500));
  EXPECT_FALSE(dated.holds_at(At(1'999)));
  EXPECT_TRUE(dated.holds_at(At(2'000)));
  EXPECT_TRUE(dated.holds_at(At(3'999)));
  EXPECT_FALSE(dated.holds_at(At(4'000)));
  EXPECT_TRUE(fixed_window(3, kMinute).holds_at(At(0)));
}

TEST_F(Thousands, MakeATagByTheirIdentity) {
  const auto other = std::make_shared<const Calendar>(Calendar{"other", calendar->bounds_at});
  EXPECT_EQ(limit.tag(), limit.dated(At(77)).tag());
  EXPECT_EQ(limit.tag(), hash_of("fixed_window 0 2 calendar thousand"));
  EXPECT_NE(limit.tag(), calendar_window(3, other).tag());
}

TEST_F(Thousands, DateAPlanOnceForAsLongAsItHolds) {
  const auto first = policy.dated(At(2'500));
  EXPECT_EQ(policy.dated(At(2'000)), first);
  EXPECT_EQ(policy.dated(At(3'999)), first) << "the next period is known too";
  EXPECT_EQ(asked, 1);
  const auto second = policy.dated(At(4'000));
  EXPECT_NE(second, first);
  EXPECT_NE(policy.dated(At(1'999)), second);
  EXPECT_EQ(asked, 3);
}

TEST_F(Thousands, LeaveADatedPlanWhatItWasButForItsNumbers) {
  const auto dated = policy.dated(At(2'500));
  EXPECT_TRUE(policy.has_calendar());
  EXPECT_FALSE(dated->has_calendar()) << "it needs no further dating";
  EXPECT_EQ(dated->digest(), policy.digest());
  EXPECT_EQ(dated->packed().size(), policy.packed().size());
  EXPECT_NE(dated->packed(), policy.packed());
  EXPECT_TRUE(std::ranges::equal(dated->tags(), policy.tags()));
  EXPECT_FALSE(CompiledPolicy("p", {fixed_window(9, kMinute)}).has_calendar());
}

TEST_F(Thousands, DateTheChargesOfACallThatFollowThem) {
  const CompiledPolicy timeless("t", {fixed_window(9, kMinute)});
  const std::vector<Charge> charges{{&policy, "a", 2}, {&timeless, "b"}, {&policy, "c"}};
  const DatedCall dated(Call{charges}, At(2'500));
  const std::span<const Charge> of_the_day = (*dated).charges;
  EXPECT_EQ(of_the_day[0].policy, policy.dated(At(2'500)).get());
  EXPECT_EQ(of_the_day[0].cost, 2);
  EXPECT_EQ(of_the_day[1].policy, &timeless);
  EXPECT_EQ(of_the_day[2].policy, of_the_day[0].policy);
}

TEST_F(Thousands, MayBeAskedByManyThreadsAtOnce) {
  std::atomic<int> wrong = 0;
  in_threads(4, [&](std::ptrdiff_t thread) {
    for (Micros now = 0; now < 200'000; now += 70 + thread) {
      const auto dated = policy.dated(At(now));
      if (!dated->holds_at(At(now)) || dated->size() != 2) ++wrong;
    }
  });
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace overlimit
