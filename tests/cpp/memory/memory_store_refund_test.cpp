// Refunds, locks and resets where keys share cells, and histories are rings.
#include <gtest/gtest.h>

#include <new>
#include <string>
#include <vector>

#include "../calls.hpp"
#include "../limits.hpp"
#include "overlimit/memory_store.hpp"

namespace overlimit {
namespace {

using namespace testing;

// Two keys are tracked, everybody else shares a cell.
class SharedCells : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(hit(store, policy, {"first", "second"}, 0).allowed()); }

  std::int64_t left(std::string_view identifier, Micros now = 0) {
    return testing::left(store, policy, identifier, now);
  }
  void refund(std::initializer_list<std::string_view> identifiers, const Answer& answer, Cost cost,
              Micros now = 0) {
    testing::refund(store, policy, identifiers, answer, cost, now);
  }
  void lock(std::string_view identifier, Micros now = 0) {
    testing::lock(store, policy, {identifier}, kSecond, now);
  }
  void reset(std::string_view identifier) { testing::reset(store, policy, {identifier}); }

  MemoryStore store{2, MemoryStore::kMinBytes};
  const CompiledPolicy policy{"p", {fixed_window(9, kMinute)}};
};

TEST_F(SharedCells, AreGivenBackWhatTheyWereCharged) {
  const Answer of_x = hit(store, policy, {"x"}, 0, 3);
  hit(store, policy, {"y"}, 0, 2);
  refund({"x"}, of_x, 3);
  EXPECT_EQ(left("x"), 7);
  EXPECT_EQ(left("z"), 7);
}

TEST_F(SharedCells, AreForgottenWithAllElse) {
  const Answer of_x = hit(store, policy, {"x"}, 0, 3);
  lock("first");
  store.clear();
  EXPECT_EQ(store.size(), 0U);
  EXPECT_EQ(left("first"), 9);
  ASSERT_TRUE(hit(store, policy, {"y", "second"}, 0, 2).allowed());
  EXPECT_EQ(store.size(), 2U);
  EXPECT_EQ(left("z"), 9);
  refund({"x"}, of_x, 3);
  EXPECT_EQ(left("x"), 9);
}

TEST_F(SharedCells, AreGivenBackEachPartOfACallOfSeveral) {
  const Answer both = hit(store, policy, {"x", "y"}, 0, 2);
  EXPECT_EQ(left("z"), 5);
  refund({"x", "y"}, both, 2);
  EXPECT_EQ(left("z"), 9);
}

TEST_F(SharedCells, AreGivenBackWhenTheKeyHasRoomOfItsOwnByNow) {
  const Answer of_x = hit(store, policy, {"x"}, 0, 3);
  reset("first");
  hit(store, policy, {"x"}, 0, 1);
  refund({"x"}, of_x, 3);
  EXPECT_EQ(left("x"), 5) << "what it took over counts on";
  EXPECT_EQ(left("y"), 9) << "the cell gets back what the cell was charged";
}

TEST_F(SharedCells, AreNotGivenBackWhatATrackedKeyWasCharged) {
  const Answer of_first = hit(store, policy, {"first"}, 0, 3);
  hit(store, policy, {"x"}, 0, 4);
  reset("first");
  hit(store, policy, {"y"}, 0, 1);
  refund({"first"}, of_first, 3);
  EXPECT_EQ(left("z"), 5);
}

TEST_F(SharedCells, CannotBeLockedForOneOfThem) {
  EXPECT_THROW(lock("x"), std::bad_alloc);
  EXPECT_TRUE(hit(store, policy, {"y"}, 0).allowed());
  lock("first");
  EXPECT_EQ(hit(store, policy, {"first"}, 0).status(), Status::locked);
}

TEST_F(SharedCells, LockNobodyForTheirCompany) {
  const CompiledPolicy strict("strict", {fixed_window(1, kSecond)}, penalty({kMinute}));
  EXPECT_TRUE(hit(store, strict, {"x"}, 0).allowed());
  EXPECT_EQ(hit(store, strict, {"y"}, 0).decision.retry_after, kSecond);
  EXPECT_TRUE(hit(store, strict, {"y"}, kSecond).allowed());
}

TEST_F(SharedCells, AreForgottenWithTheWholePolicy) {
  const CompiledPolicy other("q", {fixed_window(9, kMinute)});
  hit(store, policy, {"x"}, 0, 5);
  hit(store, other, {"x"}, 0, 5);
  store.reset_all(policy.identity(), {});
  EXPECT_EQ(store.size(), 0U);
  EXPECT_EQ(left("x"), 9);
  EXPECT_EQ(left("first"), 9);
  EXPECT_FALSE(hit(store, other, {"y"}, 0, 5).allowed()) << "but not those of others";
}

TEST(RefundedRings, LoseTheRightEntryWhereverItLies) {
  constexpr Micros kEntries = 8;
  constexpr Micros kStep = 100;
  constexpr Micros kPeriod = kEntries * kStep;
  const CompiledPolicy policy("p", {sliding_log(kEntries, kPeriod)});
  for (Micros turn = 0; turn < 2 * kEntries; ++turn) {
    for (Micros removed = 0; removed < kEntries; ++removed) {
      MemoryStore store;
      std::vector<Answer> answers;
      for (Micros entry = 0; entry < turn + kEntries; ++entry) {
        answers.push_back(hit(store, policy, {"a"}, kStep * entry));
      }
      const Micros now = kStep * (turn + kEntries - 1);
      refund(store, policy, {"a"}, answers[std::size_t(turn + removed)], 1, now);
      for (Micros entry = 0; entry < kEntries; ++entry) {
        const Micros leaves_at = kStep * (turn + entry) + kPeriod;
        const auto before = left(store, policy, "a", leaves_at - 1);
        const auto after = left(store, policy, "a", leaves_at);
        ASSERT_EQ(after - before, entry == removed ? 0 : 1) << turn << ' ' << removed << ' ' << entry;
      }
    }
  }
}

TEST(LockedKeys, KeepTheirRecordsWhenThePolicyHasNoPenalty) {
  MemoryStore store;
  const CompiledPolicy policy("p", {fixed_window(9, kMinute), sliding_log(9, kMinute)});
  for (Micros now = 0; now < 5; ++now) hit(store, policy, {"a"}, now);
  lock(store, policy, {"a"}, 10, 5);
  EXPECT_EQ(hit(store, policy, {"a"}, 14).status(), Status::locked);
  EXPECT_EQ(peek(store, policy, {"a"}, 15, 0).columns.remaining, (std::vector<std::int64_t>{4, 4}));
  EXPECT_EQ(store.size(), 1U);
}

TEST(LockedKeys, AreTrackedForAsLongAsTheLockIsRemembered) {
  MemoryStore store(2, MemoryStore::kMinBytes);
  const CompiledPolicy policy("p", {fixed_window(9, kSecond)});
  lock(store, policy, {"a"}, kMinute, 0);
  for (Micros now = 0; now < kMinute; now += kSecond) hit(store, policy, {"b", std::to_string(now)}, now);
  EXPECT_EQ(hit(store, policy, {"a"}, kMinute - 1).status(), Status::locked);
}

// Only one key is tracked; everybody else begins in the cell that they share.
class OneKeyOfItsOwn : public ::testing::Test {
 protected:
  MemoryStore store{1, MemoryStore::kMinBytes};
};

TEST_F(OneKeyOfItsOwn, IsLockedByTheHitThatMakesIt) {
  const CompiledPolicy policy{"p", {fixed_window(2, kMinute)}, penalty({2 * kMinute})};
  hit(store, policy, {"first"}, 0);
  hit(store, policy, {"x"}, 0, 2);
  reset(store, policy, {"first"});
  EXPECT_EQ(hit(store, policy, {"x"}, 0).status(), Status::over);
  EXPECT_EQ(hit(store, policy, {"x"}, 1).status(), Status::locked);
  EXPECT_EQ(hit(store, policy, {"x"}, 2 * kMinute).status(), Status::ok);
}

TEST_F(OneKeyOfItsOwn, IsLockedByHandOnceTheOthersHaveExpired) {
  const CompiledPolicy policy{"p", {fixed_window(9, kSecond)}};
  hit(store, policy, {"first"}, 0);
  lock(store, policy, {"second"}, kSecond, 10 * kMinute);
  EXPECT_EQ(hit(store, policy, {"second"}, 10 * kMinute).status(), Status::locked);
}

TEST_F(OneKeyOfItsOwn, LeavesTheOthersAHistoryThatACallOfSeveralIsChargedToOnce) {
  const CompiledPolicy policy{"p", {sliding_log(20, kMinute)}};
  hit(store, policy, {"first"}, 0);
  hit(store, policy, {"z"}, 10, 5);
  const Answer both = hit(store, policy, {"x", "y"}, 20, 2);
  hit(store, policy, {"z"}, 30);
  EXPECT_EQ(left(store, policy, "z", 30), 10);
  EXPECT_EQ(left(store, policy, "z", 10 + kMinute), 15) << "what came first leaves once";
  refund(store, policy, {"x", "y"}, both, 1, 30);
  EXPECT_EQ(left(store, policy, "z", 30), 12) << "one for each of them";
}

TEST_F(OneKeyOfItsOwn, LeavesTheOthersACellThatIsGivenBackNoMoreThanIsLeft) {
  const CompiledPolicy policy{"p", {token_bucket(20, 1)}};
  hit(store, policy, {"first"}, 0, 19);
  const Answer both = hit(store, policy, {"x", "y"}, 0, 3);  // 6 used
  hit(store, policy, {"z"}, 4 * kSecond, 10);                // 4 drained, 12 used
  refund(store, policy, {"x", "y"}, both, 3, 4 * kSecond);
  EXPECT_EQ(left(store, policy, "z", 4 * kSecond), 10);
}

}  // namespace
}  // namespace overlimit
