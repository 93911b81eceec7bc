// A process may be killed after any of its instructions: here it is stopped after each one that has written
// shared memory, and what it would have left is used by another process.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "../calls.hpp"
#include "../limits.hpp"
#include "own_file.hpp"
#include "writes.hpp"

namespace overlimit {
namespace {

using shared_memory::Attachment;
using shared_memory::SharedTable;
using namespace testing;

// Some of what the tests have charged no longer counts, but no key has expired altogether.
constexpr Micros kLater = kNow + kMinute - 60;

/// What a test asks about: the usage of an identifier under a policy.
struct Watched {
  const CompiledPolicy* policy;
  std::string identifier;
};

/// Of each watched identifier, what it may spend now, and once some of what it has spent no longer counts; -1
/// while it is locked.
using View = std::vector<std::array<std::int64_t, 2>>;

std::int64_t left_at(Store& store, const Watched& watched, Micros instant) {
  const auto answer = peek(store, *watched.policy, {watched.identifier}, instant, 0);
  return answer.status() == Status::locked ? -1 : answer.decision.remaining;
}

View view_of(Store& store, const std::vector<Watched>& watched) {
  View view;
  for (const Watched& each : watched) {
    view.push_back({left_at(store, each, kNow), left_at(store, each, kLater)});
  }
  return view;
}

/// Looks at all of a table. Throws if anything contradicts itself.
void check_structure(Attachment& attachment) {
  std::uint64_t tracked = 0;
  for (const auto& shard : attachment.view<SharedTable>().table().shards()) {
    EXPECT_FALSE(shard->needs_recovery());
    shard->rebuild();
    std::vector<KeptKey> keys;
    for (std::size_t below = SIZE_MAX; below > 0;) below = shard->copy_keys(below, SIZE_MAX, keys);
    const auto shared = std::uint64_t(std::ranges::count_if(keys, &KeptKey::is_overflow));
    EXPECT_EQ(shard->state().overflow_entries, shared);
    EXPECT_EQ(shard->state().tracked, keys.size() - shared);
    tracked += shard->state().tracked;
  }
  EXPECT_EQ(attachment.view<SharedTable>().table().state().totals.tracked, tracked);
}

/// What a process finds that opens a copy of this memory after everybody else has died.
View checked_view_after_death(std::span<const std::byte> memory, const std::vector<Watched>& watched) {
  const OwnFile copy(memory);
  SharedMemoryStore store(copy.options());
  const CompiledPolicy unused("unused", {fixed_window(3, kMinute)});
  const auto begin = std::chrono::steady_clock::now();
  store.reset_all(unused.identity(), {});
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(500));
  View view = view_of(store, watched);
  // What is added now must not lie on what was there.
  for (int i = 0; i < 20; ++i) {
    EXPECT_LE(hit(store, unused, {"new:" + std::to_string(i)}, kNow).decision.remaining, 2);
  }
  EXPECT_EQ(view_of(store, watched), view);
  check_structure(attachment_of(copy));
  return view;
}

/// Called where no exception may leave.
View view_after_death(std::span<const std::byte> memory, const std::vector<Watched>& watched) noexcept {
  try {
    return checked_view_after_death(memory, watched);
  } catch (const std::exception& error) {
    ADD_FAILURE() << error.what();
    return {};
  }
}

class Crashes : public ::testing::Test {
 protected:
  void open(std::size_t max_keys = 1000, std::size_t max_bytes = SharedMemoryStore::kMinBytes) {
    store = std::make_unique<SharedMemoryStore>(file.options(max_keys, max_bytes));
    view_of(*store, watched);
  }
  std::span<const std::byte> memory() {
    const auto& mapping = attachment_of(file).mapping();
    return {mapping.base(), mapping.bytes()};
  }
  Writes stop_after_writes(Writes::AfterWrite action) {
    auto& mapping = attachment_of(file).mapping();
    return Writes(mapping.base(), mapping.bytes(), std::move(action));
  }

  /// Whatever instant a process dies at, the action is done for all that is watched, or for nothing of it;
  /// and once it was done, it stays so.
  void expect_all_or_nothing(const std::function<void()>& action) {
    const View before = view_after_death(memory(), watched);
    std::vector<View> views;
    {
      const Writes writes = stop_after_writes([&] { views.push_back(view_after_death(memory(), watched)); });
      action();
    }
    const View after = view_after_death(memory(), watched);
    ASSERT_EQ(after, view_of(*store, watched));
    ASSERT_NE(before, after) << "or nothing is tested";
    ASSERT_GT(views.size(), 10U);
    EXPECT_EQ(views.back(), after);
    bool is_done = false;
    for (std::size_t i = 0; i < views.size(); ++i) {
      is_done = is_done || views[i] == after;
      ASSERT_EQ(views[i], is_done ? after : before) << "after write " << i << " of " << views.size();
    }
  }

  /// The same for each of them by itself.
  void expect_each_all_or_nothing(const std::function<void()>& action) {
    const View before = view_after_death(memory(), watched);
    std::vector<View> views;
    {
      const Writes writes = stop_after_writes([&] { views.push_back(view_after_death(memory(), watched)); });
      action();
    }
    const View after = view_after_death(memory(), watched);
    ASSERT_NE(before, after) << "or nothing is tested";
    ASSERT_FALSE(HasFailure());
    for (std::size_t each = 0; each < watched.size(); ++each) {
      bool is_done = false;
      for (std::size_t i = 0; i < views.size(); ++i) {
        is_done = is_done || views[i][each] == after[each];
        ASSERT_EQ(views[i][each], is_done ? after[each] : before[each])
            << watched[each].identifier << " after write " << i << " of " << views.size();
      }
    }
  }

  /// Six keys, which lie in both shards of a file of 3 MiB.
  void watch_several() {
    watched.clear();
    for (int i = 0; i < 6; ++i) watched.push_back({&policy, "id:" + std::to_string(i)});
  }

  const CompiledPolicy policy{"p", {fixed_window(10, kMinute), sliding_window(100, kHour)}};
  const CompiledPolicy log{"log", {sliding_log(1000, kMinute)}};
  const CompiledPolicy locking{"locking", {fixed_window(2, kMinute)}, penalty({kMinute})};
  std::vector<Watched> watched{{&policy, "a"}, {&policy, "b"}};
  OwnFile file;
  std::unique_ptr<SharedMemoryStore> store;
};

TEST_F(Crashes, InAHitOfAKnownKeyLeaveAllOrNothing) {
  open();
  hit(*store, policy, {"a"}, kNow);
  expect_all_or_nothing([&] { EXPECT_TRUE(hit(*store, policy, {"a"}, kNow, 3).allowed()); });
}

TEST_F(Crashes, InAHitOfANewKeyLeaveAllOrNothing) {
  open();
  expect_all_or_nothing([&] { EXPECT_TRUE(hit(*store, policy, {"a"}, kNow, 3).allowed()); });
}

TEST_F(Crashes, InAHitOfSeveralKeysOfAShardLeaveAllOrNothing) {
  open();
  hit(*store, policy, {"b"}, kNow);
  expect_all_or_nothing([&] { EXPECT_TRUE(hit(*store, policy, {"a", "b"}, kNow, 3).allowed()); });
}

TEST_F(Crashes, InAHitOfSeveralShardsLeaveAllOrNothing) {
  watch_several();
  open(4096, 3 << 20);
  hit(*store, policy, {"id:0", "id:3"}, kNow);
  expect_all_or_nothing([&] {
    EXPECT_TRUE(hit(*store, policy, {"id:0", "id:1", "id:2", "id:3", "id:4", "id:5"}, kNow, 2).allowed());
  });
}

TEST_F(Crashes, WhileALogGrowsLeaveAllOrNothing) {
  watched = {{&log, "a"}};
  open();
  for (int i = 0; i < 64; ++i) hit(*store, log, {"a"}, kNow - 100 + i);
  expect_all_or_nothing([&] { EXPECT_TRUE(hit(*store, log, {"a"}, kNow).allowed()); });
}

TEST_F(Crashes, WhileALogForgetsItsOldestCellsLeaveAllOrNothing) {
  watched = {{&log, "a"}};
  open();
  for (int i = 0; i < 63; ++i) hit(*store, log, {"a"}, kNow - kMinute - 32 + i);
  hit(*store, log, {"a"}, kNow - 10);
  expect_all_or_nothing([&] { EXPECT_TRUE(hit(*store, log, {"a"}, kNow, 5).allowed()); });
}

TEST_F(Crashes, InARefundLeaveAllOrNothing) {
  open();
  const auto answer = hit(*store, policy, {"a"}, kNow, 3);
  expect_all_or_nothing([&] { refund(*store, policy, {"a"}, answer, 3, kNow); });
}

TEST_F(Crashes, InAChargeBeyondTheLimitsLeaveAllOrNothing) {
  open();
  auto charges = charges_of(policy, {"a"}, 1'000);
  charges[0].role = Role::always;
  expect_all_or_nothing([&] { EXPECT_EQ(ask(*store, call_of(charges, kNow)).status(), Status::never); });
}

TEST_F(Crashes, InASettlementLeaveAllOrNothing) {
  open();
  const auto answer = hit(*store, policy, {"a"}, kNow, 3);
  const auto asked = charges_of(policy, {"a"}, 0);
  Columns left(pairs_of(asked));
  Present present{asked, left.rows()};
  expect_all_or_nothing([&] {
    store->refund_showing(call_of(charges_of(policy, {"a"}, 2), kNow), answer.columns.receipt, &present, {});
  });
}

TEST_F(Crashes, InARefundOfSeveralShardsLeaveAllOrNothing) {
  watch_several();
  open(4096, 3 << 20);
  const auto answer = hit(*store, policy, {"id:0", "id:1", "id:2", "id:3", "id:4", "id:5"}, kNow, 3);
  const auto charges = charges_of(policy, {"id:0", "id:1", "id:2", "id:3", "id:4", "id:5"}, 3);
  expect_all_or_nothing([&] { store->refund(call_of(charges, kNow), answer.columns.receipt, {}); });
}

TEST_F(Crashes, WhileSeveralShardsAreLockedAndUnlockedLeaveAllOrNothing) {
  watch_several();
  open(4096, 3 << 20);
  const auto charges = charges_of(policy, {"id:0", "id:1", "id:2", "id:3", "id:4", "id:5"}, 1);
  expect_all_or_nothing([&] { store->lock(call_of(charges, kNow), For(kMinute), {}); });
  expect_all_or_nothing([&] { store->unlock(call_of(charges, kNow), {}); });
}

TEST_F(Crashes, InARefundOfACellLeaveAllOrNothing) {
  watched = {{&log, "a"}};
  open();
  hit(*store, log, {"a"}, kNow - 90);
  const auto answer = hit(*store, log, {"a"}, kNow - 80, 3);
  for (int i = 0; i < 7; ++i) hit(*store, log, {"a"}, kNow - 70 + 10 * i);
  expect_all_or_nothing([&] { refund(*store, log, {"a"}, answer, 3, kNow); });
}

TEST_F(Crashes, InAResetLeaveAllOrNothing) {
  open();
  hit(*store, policy, {"a"}, kNow);
  hit(*store, policy, {"b"}, kNow);
  const std::string_view identifiers[] = {"a"};
  expect_all_or_nothing([&] { store->reset(policy.identity(), identifiers, {}); });
}

TEST_F(Crashes, InAResetOfAllLeaveEachKeyOrNot) {
  watched.clear();
  for (int i = 0; i < 12; ++i) watched.push_back({&policy, "id:" + std::to_string(i)});
  open();
  for (const Watched& each : watched) hit(*store, policy, {each.identifier}, kNow);
  expect_each_all_or_nothing([&] { store->reset_all(policy.identity(), {}); });
}

TEST_F(Crashes, WhileAPenaltyIsSetLeaveAllOrNothing) {
  watched = {{&locking, "a"}};
  open();
  hit(*store, locking, {"a"}, kNow, 2);
  expect_all_or_nothing([&] { EXPECT_EQ(hit(*store, locking, {"a"}, kNow).status(), Status::over); });
}

TEST_F(Crashes, WhileAKeyIsLockedAndUnlockedLeaveAllOrNothing) {
  open();
  const auto charges = charges_of(policy, {"a"}, 1);
  expect_all_or_nothing([&] { store->lock(call_of(charges, kNow), For(kMinute), {}); });
  expect_all_or_nothing([&] { store->unlock(call_of(charges, kNow), {}); });
}

TEST_F(Crashes, AfterLimitsHaveChangedLeaveAllOrNothing) {
  open();
  hit(*store, policy, {"a"}, kNow, 4);
  const CompiledPolicy changed("p", {sliding_window(100, kHour), fixed_window(20, kMinute)});
  watched = {{&changed, "a"}};
  expect_all_or_nothing([&] { EXPECT_TRUE(hit(*store, changed, {"a"}, kNow, 3).allowed()); });
}

TEST_F(Crashes, WhileTheStoreIsFullLeaveAllOrNothing) {
  open(2);
  hit(*store, policy, {"c"}, kNow);
  hit(*store, policy, {"d"}, kNow);
  expect_all_or_nothing([&] { EXPECT_TRUE(hit(*store, policy, {"a"}, kNow, 3).allowed()); });
}

TEST_F(Crashes, WhileExpiredKeysAreSweptLeaveTheOthersAsTheyAre) {
  open(16);
  hit(*store, policy, {"b"}, kNow, 2);
  for (int i = 0; i < 15; ++i) hit(*store, policy, {"old:" + std::to_string(i)}, kNow - 2 * kHour);
  expect_all_or_nothing([&] { EXPECT_TRUE(hit(*store, policy, {"a"}, kNow, 3).allowed()); });
  EXPECT_EQ(store->size(), 2U);
}

TEST_F(Crashes, WhileMuchIsSweptLoseNoKeyOfTheOthers) {
  watched.clear();
  for (int i = 0; i < 10; ++i) watched.push_back({&policy, "id:" + std::to_string(i)});
  open(200);
  for (int i = 0; i < 60; ++i) hit(*store, policy, {"old:" + std::to_string(i)}, kNow - 2 * kHour);
  for (const Watched& each : watched) hit(*store, policy, {each.identifier}, kNow, 2);
  const View expected = view_of(*store, watched);
  std::size_t writes_seen = 0;
  const Writes writes = stop_after_writes([&] {
    if (++writes_seen % 7 == 0) {
      EXPECT_EQ(view_after_death(memory(), watched), expected);
    }
  });
  for (int i = 0; i < 200; ++i) peek(*store, policy, {"id:0"}, kNow);
  EXPECT_EQ(store->size(), 10U);
  EXPECT_GT(writes_seen, 500U);
}

// Whoever recovers a shard may be killed too.
TEST_F(Crashes, DuringARecoveryLeaveAllOrNothing) {
  watched = {{&log, "a"}};
  open();
  for (int i = 0; i < 4; ++i) hit(*store, log, {"a"}, kNow - 10 + i);
  const View before = view_of(*store, watched);
  std::vector<std::vector<std::byte>> states;
  {
    const Writes writes = stop_after_writes([&] { states.emplace_back(memory().begin(), memory().end()); });
    EXPECT_TRUE(hit(*store, log, {"a"}, kNow).allowed());
  }
  const View after = view_of(*store, watched);
  ASSERT_GT(states.size(), 20U);
  std::size_t recoveries = 0;
  for (const auto& state : states) {
    const View expected = view_after_death(state, watched);
    ASSERT_TRUE(expected == before || expected == after);
    const OwnFile copy(state);
    SharedMemoryStore recovering(copy.options());
    recovering.ping({}, {});
    const auto& mapping = attachment_of(copy).mapping();
    const std::span<const std::byte> bytes(mapping.base(), mapping.bytes());
    {
      const Writes writes(mapping.base(), mapping.bytes(), [&] {
        ++recoveries;
        ASSERT_EQ(view_after_death(bytes, watched), expected);
      });
      view_of(recovering, watched);
    }
  }
  EXPECT_GT(recoveries, states.size());
}

}  // namespace
}  // namespace overlimit
