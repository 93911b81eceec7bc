// A store that is full never forgives: what it cannot tell apart it counts together.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <vector>

#include "../calls.hpp"
#include "../examples.hpp"
#include "../limits.hpp"
#include "overlimit/memory_store.hpp"

namespace overlimit {
namespace {

using namespace testing;

std::string name_of(int number) { return "id:" + std::to_string(number); }

// Room for four keys, in one shard.
class FourKeys : public ::testing::Test {
 protected:
  void fill(Micros now = 0) {
    for (int i = 0; i < 4; ++i) ASSERT_TRUE(hit(store, policy, {name_of(i)}, now).allowed());
  }
  std::int64_t left(std::string_view identifier, Micros now = 0) {
    return testing::left(store, policy, identifier, now);
  }

  MemoryStore store{4, MemoryStore::kMinBytes};
  const CompiledPolicy policy{"p", {fixed_window(5, kMinute)}};
};

TEST_F(FourKeys, AreToldApartFromCrowdedChargesByTheirPlaces) {
  fill();
  const std::vector<Charge> charges{{&policy, "id:0"}, {&policy, "x"}, {&policy, "id:3"}, {&policy, "y"}};
  EXPECT_EQ(ask(store, call_of(charges, 0)).basis.crowded, 0b1010U);
  EXPECT_EQ(store.crowded_calls(), 1U);
  EXPECT_EQ(ask(store, call_of(charges, 0, Mode::peek)).basis.crowded, 0U);
  EXPECT_EQ(store.crowded_calls(), 1U);
}

TEST_F(FourKeys, GetTheirWholeLimitAndAllOthersOneTogether) {
  std::map<int, int> admitted;
  int of_others = 0;
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < 50; ++i) {
      if (!hit(store, policy, {name_of(i)}, 0).allowed()) continue;
      ++admitted[i];
      if (i >= 4) ++of_others;
    }
  }
  for (int i = 0; i < 4; ++i) EXPECT_EQ(admitted[i], 5);
  EXPECT_EQ(of_others, 5);
}

TEST_F(FourKeys, ShareTheirCellWithNoOtherPolicy) {
  fill();
  const CompiledPolicy other("q", {fixed_window(5, kMinute)});
  EXPECT_TRUE(hit(store, policy, {"x"}, 0, 5).allowed());
  EXPECT_TRUE(hit(store, other, {"x"}, 0, 5).allowed());
  EXPECT_FALSE(hit(store, other, {"y"}, 0).allowed());
}

TEST_F(FourKeys, TellWhenTheCellAdmitsAgain) {
  fill();
  hit(store, policy, {"x"}, 10, 5);
  EXPECT_EQ(hit(store, policy, {"y"}, 20).decision.retry_after, kMinute - 10);
  EXPECT_FALSE(hit(store, policy, {"y"}, kMinute - 1).allowed());
}

TEST_F(FourKeys, ExpireAndMakeRoom) {
  fill();
  EXPECT_TRUE(hit(store, policy, {"x"}, kMinute - 1).allowed());
  EXPECT_EQ(store.size(), 4U);
  for (int i = 10; i < 14; ++i) EXPECT_TRUE(hit(store, policy, {name_of(i)}, kHour, 5).allowed());
  EXPECT_EQ(store.size(), 4U);
  for (int i = 10; i < 14; ++i) EXPECT_FALSE(hit(store, policy, {name_of(i)}, kHour).allowed());
}

TEST_F(FourKeys, StartFromTheirCellWhenTheyBecomeTracked) {
  fill();
  hit(store, policy, {"x"}, kMinute / 2, 3);
  EXPECT_EQ(left("x", kMinute), 2);
  EXPECT_TRUE(hit(store, policy, {"x"}, kMinute, 2).allowed()) << "those four have expired";
  EXPECT_EQ(store.size(), 1U);
  EXPECT_FALSE(hit(store, policy, {"x"}, kMinute).allowed());
  EXPECT_EQ(left("y", kMinute), 2) << "its cell was not charged with that";
}

TEST_F(FourKeys, LeaveTheirCellBehindWhenItHasExpired) {
  fill();
  hit(store, policy, {"x"}, 0, 5);
  EXPECT_TRUE(hit(store, policy, {"x"}, kHour, 5).allowed());
  EXPECT_EQ(left("y", kHour), 5);
}

TEST_F(FourKeys, ReachTheirCellNotByAReset) {
  fill();
  hit(store, policy, {"x"}, 0, 3);
  reset(store, policy, {"x", "y"});
  EXPECT_EQ(left("x"), 2);
  EXPECT_EQ(store.size(), 4U);
}

TEST_F(FourKeys, MakeRoomWhenTheyAreReset) {
  fill();
  const std::string first = name_of(0);
  reset(store, policy, {first});
  EXPECT_EQ(store.size(), 3U);
  EXPECT_TRUE(hit(store, policy, {"x"}, 0, 5).allowed());
  EXPECT_EQ(store.size(), 4U);
  EXPECT_EQ(left("y"), 5) << "x has room of its own";
}

TEST_F(FourKeys, ChargeOneCellForAllThatShareItInACall) {
  fill();
  EXPECT_TRUE(hit(store, policy, {"x", "y"}, 0).allowed());
  EXPECT_EQ(left("z"), 3);
  EXPECT_EQ(hit(store, policy, {"x", "y"}, 0).columns.remaining, (std::vector<std::int64_t>{1, 1}));
  EXPECT_EQ(hit(store, policy, {"x", "y"}, 0).status(), Status::over) << "two where one is left";
  EXPECT_TRUE(hit(store, policy, {"y"}, 0).allowed());
  EXPECT_FALSE(hit(store, policy, {"z"}, 0).allowed());
}

TEST_F(FourKeys, AreNotToldNeverForTheCompanyTheyAreIn) {
  fill();
  const Answer crowded = hit(store, policy, {"x", "y"}, 0, 3);
  EXPECT_EQ(crowded.status(), Status::over);
  EXPECT_GE(crowded.decision.retry_after, 1);
  EXPECT_LT(crowded.decision.retry_after, kNever);
  EXPECT_EQ(hit(store, policy, {"x", "y"}, 0, 6).status(), Status::never);
  EXPECT_EQ(left("x"), 5);
}

TEST_F(FourKeys, ShareCostsOfAnySize) {
  fill();
  hit(store, policy, {"x"}, 0, 2);
  for (const Cost cost : {kExact - 1, kExact, Cost{INT64_MAX}}) {
    EXPECT_EQ(hit(store, policy, {"x", "y", "z"}, 0, cost).status(), Status::never);
  }
  EXPECT_EQ(left("x"), 3);
}

TEST_F(FourKeys, MixWithKeysThatHaveNoRoomInOneCall) {
  fill();
  EXPECT_TRUE(hit(store, policy, {name_of(0), "x"}, 0, 4).allowed());
  EXPECT_EQ(left(name_of(0)), 0);
  EXPECT_EQ(left("x"), 1);
  EXPECT_FALSE(hit(store, policy, {name_of(1), "x"}, 0, 2).allowed());
  EXPECT_EQ(left(name_of(1)), 4);
}

TEST_F(FourKeys, LookAtTheirCellWithoutWritingInAPeek) {
  fill();
  EXPECT_EQ(left("x"), 5);
  hit(store, policy, {"y"}, 0, 3);
  EXPECT_EQ(left("x"), 2);
  EXPECT_TRUE(peek(store, policy, {"x"}, 0, 2).allowed());
  EXPECT_FALSE(peek(store, policy, {"x"}, 0, 3).allowed());
  EXPECT_EQ(left("x"), 2);
}

TEST_F(FourKeys, KeepTheirCellWhenLimitsChangeUnderTheirName) {
  fill();
  hit(store, policy, {"x"}, 0, 5);
  const CompiledPolicy after("p", {sliding_window(9, kMinute), fixed_window(5, kMinute)});
  EXPECT_FALSE(hit(store, after, {"y"}, 0).allowed());
}

TEST(InjectedClock, DropsNothingByItsOwnTime) {
  MemoryStore store(4, MemoryStore::kMinBytes);
  const CompiledPolicy policy("p", {fixed_window(5, kMinute)});
  const auto hit_at = [&](int number, Micros now) {
    const std::string name = name_of(number);
    const Charge charge{&policy, name, 1};
    return ask(store, {std::span(&charge, 1), Mode::consume, At(now), false}).allowed();
  };
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(hit_at(i, 0));
  for (int i = 0; i < 40; ++i) EXPECT_TRUE(hit_at(i % 4, kHour * (i + 1)));
  EXPECT_EQ(store.size(), 4U);
}

// Bytes run out long before keys do.
class FewBytes : public ::testing::Test {
 protected:
  MemoryStore store{1'000'000, MemoryStore::kMinBytes};
};

TEST_F(FewBytes, BoundTheKeysToo) {
  const CompiledPolicy policy("p", {fixed_window(5, kMinute)});
  int admitted = 0;
  for (int i = 0; i < 5'000; ++i) admitted += hit(store, policy, {name_of(i)}, 0).allowed();
  EXPECT_GT(store.size(), 300U);
  EXPECT_LT(store.size(), MemoryStore::kMinBytes / 96);
  EXPECT_EQ(admitted, int(store.size()) + 5) << "each known key once, and the cell its limit";
}

TEST_F(FewBytes, MakeRoomAgainForKeysOfOtherSizes) {
  const CompiledPolicy small("small", {fixed_window(5, kMinute)});
  const CompiledPolicy large("large", std::vector(16, fixed_window(5, kMinute)));
  for (int i = 0; i < 5'000; ++i) hit(store, small, {name_of(i)}, 0);
  for (int call = 0; call < 200; ++call) peek(store, small, {"x"}, kHour);
  EXPECT_EQ(store.size(), 0U) << "who finds no bytes looks for expired keys";
  int admitted = 0;
  for (int call = 0; call < 100; ++call) admitted += hit(store, large, {name_of(call)}, kHour, 5).allowed();
  EXPECT_EQ(admitted, int(store.size()) + 1) << "each known key once, and the cell once";
  EXPECT_GT(admitted, 50);
}

// Every key's admissions of the last period, counted apart.
TEST_F(FewBytes, AdmitNobodyMoreThanTheLimitWhenHistoriesFindNoRoom) {
  const CompiledPolicy policy("p", {sliding_window(40, 50 * kSecond)});
  std::mt19937 random(11);
  std::map<int, std::vector<Micros>> admitted;
  std::map<int, int> refused;
  constexpr int kCalls = examples(60'000);
  for (int call = 0; call < kCalls; ++call) {
    const Micros now = call * (2 * kMinute / kCalls);
    const int id = int(random() % 400);
    if (!hit(store, policy, {name_of(id)}, now).allowed()) {
      ++refused[id];
      continue;
    }
    admitted[id].push_back(now);
  }
  std::size_t in_all = 0;
  for (const auto& [id, times] : admitted) {
    in_all += times.size();
    for (std::size_t i = 40; i < times.size(); ++i) ASSERT_GT(times[i] - times[i - 40], 50 * kSecond) << id;
  }
  EXPECT_GT(in_all, std::size_t{kCalls} / 6);
  EXPECT_LE(store.size(), 400U);
}

TEST_F(FewBytes, ComeBackWholeAfterAFlood) {
  const CompiledPolicy policy("p", {sliding_window(40, 50 * kSecond)});
  for (int call = 0; call < 60'000; ++call) hit(store, policy, {name_of(call % 400)}, call * 2'000);
  for (int i = 0; i < 40; ++i) EXPECT_TRUE(hit(store, policy, {"late"}, kHour + i * kSecond).allowed());
  EXPECT_FALSE(hit(store, policy, {"late"}, kHour + 40 * kSecond).allowed());
}

TEST(MemoryStoreSweeping, FollowsTheTrafficSoThatExpiredKeysDoNotPileUp) {
  MemoryStore store(100'000, 16 << 20);
  const CompiledPolicy policy("p", {fixed_window(5, kSecond)});
  std::size_t largest = 0;
  for (int i = 0; i < examples(200'000); ++i) {
    hit(store, policy, {name_of(i)}, Micros{i} * 1'000);  // a thousand new keys in each period
    largest = std::max(largest, store.size());
  }
  EXPECT_GE(largest, 1'000U);
  EXPECT_LT(largest, 20'000U);
}

class DeadKeys : public ::testing::TestWithParam<int> {
 protected:
  // Calls of one key, the living, until it alone is left; at most so many.
  int calls_until_gone(Micros now, int most) {
    int calls = 0;
    while (store.size() > 1 && calls < most) {
      hit(store, hourly, {"living"}, now);
      ++calls;
    }
    return calls;
  }

  MemoryStore store;
  const CompiledPolicy hourly{"hourly", {fixed_window(1'000'000'000, kHour)}};
  const CompiledPolicy brief{"brief", {fixed_window(5, kSecond)}};
};

INSTANTIATE_TEST_SUITE_P(Of, DeadKeys, ::testing::Values(10, 11, 30, 64, 100, 300, 1'500, 10'000));

TEST_P(DeadKeys, AreGoneAfterFourCallsForEach) {
  const int keys = GetParam();
  hit(store, hourly, {"living"}, 0);
  for (int i = 0; i < keys; ++i) hit(store, brief, {name_of(i)}, 0);
  ASSERT_EQ(store.size(), std::size_t(keys) + 1);
  EXPECT_EQ(calls_until_gone(kSecond - 1, 2 * keys), 2 * keys) << "not before their time";
  ASSERT_EQ(store.size(), std::size_t(keys) + 1);
  EXPECT_LE(calls_until_gone(kSecond, 100 * keys), 4 * keys + 8);
  EXPECT_EQ(store.size(), 1U);
}

TEST_P(DeadKeys, AreGoneAfterFourCallsForEachAlsoWhereManyMoreHaveBeen) {
  constexpr int kMany = examples(20'000);
  const int keys = GetParam();
  hit(store, hourly, {"living"}, 0);
  for (int i = 0; i < kMany; ++i) hit(store, brief, {name_of(i)}, 0);
  EXPECT_LE(calls_until_gone(kSecond, 1'000'000), 4 * (kMany + 1) + 8);
  for (int i = 0; i < keys; ++i) hit(store, brief, {name_of(i)}, kSecond);
  EXPECT_LE(calls_until_gone(2 * kSecond, 100 * keys), 4 * keys + 8);
}

TEST(ManyDeadKeys, AreGoneAfterFourCallsForEach) {
  MemoryStore store;
  const CompiledPolicy brief("brief", {fixed_window(5, kSecond)});
  constexpr int kKeys = examples(100'000);
  for (int i = 0; i < kKeys; ++i) hit(store, brief, {name_of(i)}, 0);
  for (int call = 0; call < 4 * kKeys; ++call) peek(store, brief, {"nobody"}, kSecond, 0);
  EXPECT_EQ(store.size(), 0U);
}

TEST(DeadKeysAmongTheLiving, AreGoneAfterFourCallsForEachKey) {
  MemoryStore store;
  const CompiledPolicy hourly("hourly", {fixed_window(1'000'000'000, kHour)});
  const CompiledPolicy brief("brief", {fixed_window(5, kSecond)});
  constexpr int kLiving = 1'000;
  constexpr int kDead = examples(20'000);
  for (int i = 0; i < kLiving; ++i) hit(store, hourly, {name_of(i)}, 0);
  for (int i = 0; i < kDead; ++i) hit(store, brief, {name_of(i)}, 0);
  for (int call = 0; call < 4 * (kLiving + kDead); ++call) {
    hit(store, hourly, {name_of(call % kLiving)}, kSecond);
  }
  EXPECT_EQ(store.size(), std::size_t{kLiving});
}

// The thread sanitizer leaves a program less address space than that.
#ifdef __SANITIZE_THREAD__
constexpr std::size_t kMostBytes = std::size_t{1} << 40;
#else
constexpr std::size_t kMostBytes = MemoryStore::kMaxBytes;
#endif

TEST(MemoryStore, WorksWithAllTheBytesThatItsOffsetsReach) {
#ifdef OVERLIMIT_EMULATED
  GTEST_SKIP() << "an emulator keeps something for each page that is reserved";
#endif
  const CompiledPolicy policy("p", {fixed_window(5, kMinute), sliding_window(5, kMinute)});
  for (const std::size_t max_keys : {std::size_t{1}, std::size_t{1} << 20, std::size_t{1} << 48}) {
    for (const std::size_t max_bytes : {std::size_t{1} << 37, (std::size_t{1} << 37) + 1, kMostBytes}) {
      MemoryStore store(max_keys, max_bytes);
      for (int i = 0; i < 200; ++i) {
        EXPECT_TRUE(hit(store, policy, {name_of(i)}, 0, 5).allowed() || max_keys == 1) << i;
        EXPECT_FALSE(hit(store, policy, {name_of(i)}, 0).allowed()) << i;
      }
      EXPECT_EQ(store.size(), std::min(max_keys, std::size_t{200}));
    }
  }
}

}  // namespace
}  // namespace overlimit
