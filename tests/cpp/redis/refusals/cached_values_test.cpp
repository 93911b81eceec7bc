#include "redis/refusals/cached_values.hpp"

#include <gtest/gtest.h>

#include <string>

#include "../packing.hpp"

namespace overlimit::redis {
namespace {

using testing::packed;
using testing::record_of;
using testing::value_of;

Value value(std::size_t cells = 0) {
  std::string state = packed({1, 2, 3});
  for (std::size_t i = 0; i < cells; ++i) state += packed({1, 1});
  return Value(value_of(5, {record_of(7, 100, state)}));
}

/// Told by a request of this boot time, and believed for long.
void keep(CachedValues& known, const std::string& key, Micros asked_at, std::uint32_t changes,
          Value told = value()) {
  known.keep(key, std::move(told), {At(1000), For(asked_at), For(asked_at + 10)},
             boot_time() + For(testing::kHour), changes);
}

TEST(ServerReading, BoundsWhatAClockCanShowThatRunsAnEighthFasterOrSlower) {
  const ServerReading reading{At(1'000'000), For(800), For(1600)};
  EXPECT_EQ(reading.earliest(For(1600)), 1'000'000);
  EXPECT_EQ(reading.latest(For(1600)), 1'000'000 + 801 + 101 + 1);
  EXPECT_EQ(reading.earliest(For(1600 + 8001)), 1'000'000 + 7000);
  EXPECT_EQ(reading.latest(For(800 + 7999)), 1'000'000 + 9000 + 1);
  // A boot time that was read by another processor, and is a little behind.
  EXPECT_EQ(reading.earliest(For(1500)), 1'000'000);
}

TEST(ServerReading, TellsBeforeWhichInstantAClockShowsLess) {
  const ServerReading reading{At(1'000'000), For(800), For(1600)};
  for (Micros ahead = 0; ahead < 40'000; ahead += 7) {
    const Duration before = reading.before(At(1'000'000 + ahead));
    if (before > reading.asked_at) {
      EXPECT_LT(reading.latest(before - Duration(1)), 1'000'000 + ahead);
    }
    EXPECT_GE(reading.latest(before + Duration(9)), 1'000'000 + ahead);
  }
}

TEST(CachedValues, KeepWhatIsNewer) {
  CachedValues known;
  EXPECT_EQ(known.find("a"), nullptr);
  keep(known, "a", 20, known.changes("a"));
  keep(known, "a", 10, known.changes("a"));
  EXPECT_EQ(known.find("a")->reading.asked_at, 20);
  keep(known, "a", 30, known.changes("a"));
  EXPECT_EQ(known.find("a")->reading.asked_at, 30);
}

TEST(CachedValues, ForgetWhatIsChangedAndWhatIsToldMeanwhile) {
  CachedValues known;
  const std::uint32_t before = known.changes("a");
  keep(known, "a", 10, before);
  known.change("a");
  EXPECT_EQ(known.find("a"), nullptr);
  keep(known, "a", 20, before);
  EXPECT_EQ(known.find("a"), nullptr);
  keep(known, "a", 20, known.changes("a"));
  EXPECT_NE(known.find("a"), nullptr);
  known.change_all();
  EXPECT_EQ(known.find("a"), nullptr);
  keep(known, "a", 30, before + 1);
  EXPECT_EQ(known.find("a"), nullptr);
}

TEST(CachedValues, BelieveNothingAskedForBeforeAChangeNobodyHeardOf) {
  CachedValues known;
  keep(known, "a", 10, known.changes("a"));
  known.change_unheard("a", For(500));
  EXPECT_EQ(known.find("a"), nullptr);
  keep(known, "a", 499, known.changes("a"));
  EXPECT_EQ(known.find("a"), nullptr);
  known.change_unheard("a", For(300));
  keep(known, "a", 499, known.changes("a"));
  EXPECT_EQ(known.find("a"), nullptr);
  keep(known, "a", 500, known.changes("a"));
  EXPECT_NE(known.find("a"), nullptr);
}

TEST(CachedValues, HaveABoundAndKeepThoseThatComeBack) {
  CachedValues known;
  const auto name = [](std::size_t i) { return "key:" + std::to_string(i); };
  keep(known, "large", 1, 0, value(CachedValues::kMostBytesOfKey / sizeof(Cell)));
  EXPECT_EQ(known.find("large"), nullptr);
  keep(known, "customer", 1, known.changes("customer"));
  EXPECT_NE(known.find("customer"), nullptr);
  for (std::size_t i = 0; i <= 3 * CachedValues::kMostKeys; ++i)
    keep(known, name(i), 1, known.changes(name(i)));
  EXPECT_NE(known.find("customer"), nullptr);
  EXPECT_NE(known.find(name(3 * CachedValues::kMostKeys)), nullptr);
  std::size_t found = 0;
  for (std::size_t i = 0; i <= 3 * CachedValues::kMostKeys; ++i)
    found += known.find(name(i)) != nullptr ? 1 : 0;
  EXPECT_EQ(found, CachedValues::kMostKeys - 1);
}

TEST(CachedValue, IsRefreshedByOneAtATime) {
  const CachedValue known(value(), {At(1000), For(1), For(2)}, For(10'000));
  EXPECT_TRUE(known.take_refresh(For(100), For(50)));
  EXPECT_FALSE(known.take_refresh(For(149), For(50)));
  EXPECT_TRUE(known.take_refresh(For(150), For(50)));
}

}  // namespace
}  // namespace overlimit::redis
