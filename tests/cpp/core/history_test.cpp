// What sliding windows and logs have in common.
#include "overlimit/algorithms/history.hpp"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "../limits.hpp"
#include "lone_pair.hpp"

namespace overlimit {
namespace {

using testing::LonePair;
using testing::Shown;

/// A limit per 1000 us, and what of the past it counts.
struct Kind {
  std::string name;
  Limit (*of)(std::int64_t limit);
  bool (*counts)(Micros charged, Micros now);
};

const Kind kLog{"SlidingLog", [](std::int64_t limit) { return testing::sliding_log(limit, 1000); },
                [](Micros charged, Micros now) { return charged > now - 1000; }};
const Kind kWindow{"SlidingWindow",
                   [](std::int64_t limit) { return testing::sliding_window(limit, 1000, 100); },
                   [](Micros charged, Micros now) { return charged / 100 >= now / 100 - 10; }};

class History : public ::testing::TestWithParam<Kind> {};
INSTANTIATE_TEST_SUITE_P(Of, History, ::testing::Values(kLog, kWindow),
                         [](const auto& param_info) { return param_info.param.name; });

TEST_P(History, NeverAdmitsACostAboveItsLimit) {
  LonePair pair(GetParam().of(3));
  EXPECT_EQ(pair.hit(0, 4), (Shown{Status::never, 3, kNever, 0}));
  EXPECT_EQ(pair.hit(0, INT64_MAX).status, Status::never);
  EXPECT_EQ(pair.hit(0, 3).status, Status::ok);
}

// Random traffic against a list of everything that was ever admitted.
TEST_P(History, AdmitsExactlyWhenWhatCountsLeavesRoom) {
  std::mt19937 random(1);
  constexpr std::int64_t kLimit = 7;
  LonePair pair(GetParam().of(kLimit));
  std::vector<Cell> admitted;
  int refused = 0;
  Micros now = 0;
  for (int call = 0; call < 20'000; ++call) {
    now += Micros(random() % 120);
    const auto cost = Cost(random() % 4);
    std::int64_t counted = 0;
    for (const Cell& charge : admitted) counted += GetParam().counts(charge.at, now) ? charge.count : 0;
    const bool fits = counted + cost <= kLimit;
    ASSERT_EQ(pair.hit(now, cost).status, fits ? Status::ok : Status::over) << now;
    if (fits && cost > 0) admitted.push_back({now, cost});
    if (admitted.size() > 50) admitted.erase(admitted.begin());
    refused += fits ? 0 : 1;
  }
  EXPECT_GT(refused, 5'000);
  EXPECT_LT(refused, 15'000);
}

}  // namespace
}  // namespace overlimit
