// Windows that are periods of a calendar.
#pragma once

#include <algorithm>
#include <array>

#include "store_cases.hpp"

namespace overlimit::testing {

/// Periods of 100 microseconds, but the third lasts 150 and the fourth 50.
inline Bounds uneven_periods(Micros now) {
  const auto start_of = [](std::int64_t period) { return 100 * period + (period == 3 ? 50 : 0); };
  std::int64_t period = now / 100;
  if (now < start_of(period)) --period;
  return {start_of(period), start_of(period + 1), start_of(period + 2)};
}

inline std::shared_ptr<const Calendar> uneven_calendar() {
  return std::make_shared<const Calendar>(Calendar{"uneven", uneven_periods});
}

class CalendarWindows : public StoreCase {
 protected:
  const CompiledPolicy policy{"p", {calendar_window(2, uneven_calendar()), fixed_window(100, kMinute)}};
  std::size_t row = policy.limits()[0].limit.has_calendar() ? 0 : 1;
};

TEST_P(CalendarWindows, AreAsLongAsTheirPeriodIs) {
  EXPECT_TRUE(hit(policy, {"a"}, 200, 2).allowed());
  EXPECT_EQ(hit(policy, {"a"}, 201).decision.retry_after, 149);
  EXPECT_FALSE(hit(policy, {"a"}, 349).allowed());
  EXPECT_TRUE(hit(policy, {"a"}, 350, 2).allowed());
  EXPECT_EQ(hit(policy, {"a"}, 351).decision.retry_after, 49);
  EXPECT_TRUE(hit(policy, {"a"}, 400).allowed());
}

TEST_P(CalendarWindows, GrantInAllPeriodsOfALongTimeTheirLimit) {
  int admitted = 0;
  for (Micros now = 0; now < 2'000; now += 5) admitted += hit(policy, {"a"}, now).allowed() ? 1 : 0;
  EXPECT_EQ(admitted, 2 * 20);
}

TEST_P(CalendarWindows, OfAnotherCalendarAreOtherLimits) {
  const auto days = std::make_shared<const Calendar>(
      Calendar{"days", [](Micros now) {
                 return Bounds{now / 24 * 24, now / 24 * 24 + 24, now / 24 * 24 + 48};
               }});
  hit(policy, {"a"}, 130, 2);
  EXPECT_TRUE(hit(CompiledPolicy("p", {calendar_window(2, days)}), {"a"}, 130).allowed());
  EXPECT_FALSE(hit(policy, {"a"}, 130).allowed());
}

TEST_P(CalendarWindows, GoWithPenalties) {
  const CompiledPolicy strict("s", {calendar_window(1, uneven_calendar())}, Penalty{{120}});
  hit(strict, {"a"}, 110);
  EXPECT_EQ(hit(strict, {"a"}, 150).decision.retry_after, 120);
  EXPECT_EQ(hit(strict, {"a"}, 269).status(), Status::locked);
  EXPECT_TRUE(hit(strict, {"a"}, 270).allowed());
}

}  // namespace overlimit::testing
