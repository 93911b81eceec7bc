#include "overlimit/memory_store.hpp"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "../calls.hpp"
#include "../limits.hpp"

namespace overlimit {
namespace {

using namespace testing;

// Columns hold what was found once; calls borrow their charges.
class MemoryStores : public ::testing::Test {
 protected:
  std::int64_t left(std::string_view identifier, Micros now = 0) {
    return testing::left(store, policy, identifier, now);
  }

  MemoryStore store;
  const CompiledPolicy policy{"p", {fixed_window(5, kMinute), sliding_window(3, kSecond)}};
};

TEST_F(MemoryStores, ShowARowPerPairInCanonicalOrder) {
  const Answer answer = hit(store, policy, {"a", "b"}, 7);
  EXPECT_EQ(answer.columns.status, std::vector(4, Status::ok));
  EXPECT_EQ(answer.columns.remaining, (std::vector<std::int64_t>{4, 2, 4, 2}));
  EXPECT_EQ(answer.columns.reset_after, durations({kMinute, 1'020'000 - 7, kMinute, 1'020'000 - 7}));
  EXPECT_EQ(answer.columns.retry_after, std::vector(4, Duration{}));
  EXPECT_EQ(answer.time, 7);
}

TEST_F(MemoryStores, ChargeAllIdentifiersOrNone) {
  for (int i = 0; i < 3; ++i) hit(store, policy, {"a"}, 0);
  const Answer answer = hit(store, policy, {"b", "a", "c"}, 0);
  EXPECT_EQ(answer.status(), Status::over);
  EXPECT_EQ(answer.columns.status[0], Status::ok);
  EXPECT_EQ(answer.columns.status[3], Status::over);
  EXPECT_EQ(left("b"), 3);
  EXPECT_EQ(left("c"), 3);
  EXPECT_EQ(store.size(), 1U) << "keys the refused call made are gone again";
}

TEST_F(MemoryStores, TrackNoKeyThatSpendsNothing) {
  EXPECT_TRUE(hit(store, policy, {"a"}, 0, 0).allowed());
  EXPECT_TRUE(peek(store, policy, {"b"}, 0).allowed());
  EXPECT_EQ(store.size(), 0U);
}

TEST_F(MemoryStores, ChargeWhatCostsAndLookAtWhatDoesNot) {
  const std::vector<Charge> charges{{&policy, "a", 0}, {&policy, "b", 2}};
  const Answer answer = ask(store, call_of(charges, 0));
  EXPECT_TRUE(answer.allowed());
  EXPECT_EQ(answer.columns.remaining, (std::vector<std::int64_t>{5, 3, 3, 1}));
  EXPECT_EQ(store.size(), 1U);
}

TEST_F(MemoryStores, GiveReceiptsForWhatTheyChargeOnly) {
  EXPECT_GT(hit(store, policy, {"a"}, 0).columns.receipt[0].created_at, 0);
  EXPECT_EQ(hit(store, policy, {"a"}, 0).columns.receipt[0].after, (Header{0, kMinute, 2}));
  EXPECT_EQ(peek(store, policy, {"a"}, 0).columns.receipt[0].created_at, 0);
  EXPECT_EQ(hit(store, policy, {"a"}, 0, 4).columns.receipt[0].created_at, 0);
}

TEST_F(MemoryStores, GiveEveryKeyATimeOfCreationOfItsOwnThatItKeeps) {
  const Answer first = hit(store, policy, {"a", "b"}, 0);
  EXPECT_NE(first.columns.receipt[0].created_at, first.columns.receipt[2].created_at);
  EXPECT_EQ(hit(store, policy, {"a"}, 0).columns.receipt[1].created_at, first.columns.receipt[0].created_at);
  reset(store, policy, {"a"});
  EXPECT_GT(hit(store, policy, {"a"}, 0).columns.receipt[0].created_at, first.columns.receipt[2].created_at);
}

TEST_F(MemoryStores, DecideManyCallsAsTheyDecideEachAlone) {
  std::vector<std::string> names;
  for (int i = 0; i < 60; ++i) names.push_back("id:" + std::to_string(i));
  std::vector<std::vector<Charge>> charges;
  std::vector<Call> calls;
  std::size_t pairs = 0;
  for (std::size_t i = 0; i < 400; ++i) {
    charges.push_back({{&policy, names[i * 7 % 60]}});
    if (i % 3 == 0) charges.back().push_back({&policy, names[(i * 7 + 1) % 60]});
    pairs += pairs_of(charges.back());
  }
  for (std::size_t i = 0; i < charges.size(); ++i) {
    calls.push_back({charges[i], i % 5 == 0 ? Mode::peek : Mode::consume, At(Micros(i)), true});
  }
  Columns together(pairs);
  std::vector<Instant> times(calls.size());
  std::vector<Basis> bases(calls.size());
  store.decide(calls, together.rows(), times, bases, {});
  MemoryStore alone;
  Columns one_by_one(0);
  for (const Call& call : calls) {
    const Answer answer = ask(alone, call);
    for (const Status status : answer.columns.status) one_by_one.status.push_back(status);
    for (const std::int64_t left : answer.columns.remaining) one_by_one.remaining.push_back(left);
  }
  EXPECT_EQ(together.status, one_by_one.status);
  EXPECT_EQ(together.remaining, one_by_one.remaining);
  EXPECT_EQ(times.back(), 399);
}

TEST_F(MemoryStores, RefuseAReadingOutOfRangeBeforeAnythingIsCharged) {
  EXPECT_THROW(hit(store, policy, {"a"}, -1), std::out_of_range);
  EXPECT_THROW(hit(store, policy, {"a"}, kMaxTime), std::out_of_range);
  EXPECT_EQ(store.size(), 0U);
}

TEST_F(MemoryStores, RefuseMoreThan64Charges) {
  std::vector<std::string> names;
  for (int i = 0; i < 65; ++i) names.push_back("id" + std::to_string(i));
  std::vector<Charge> charges;
  for (const std::string& name : names) charges.push_back({&policy, name, 1});
  EXPECT_TRUE(ask(store, call_of(std::span(charges).first(64), 0)).allowed());
  EXPECT_THROW(ask(store, call_of(charges, 0)), std::invalid_argument);
  EXPECT_EQ(store.size(), 64U);
}

TEST_F(MemoryStores, NeitherWaitNorFail) {
  EXPECT_FALSE(store.waits());
  EXPECT_EQ(store.timeout(), 0);
  EXPECT_EQ(store.breaker(), BreakerState::closed);
}

TEST(MemoryStore, SurvivesARefusedCallOfManyKeysItDoesNotKnow) {
  MemoryStore store(20, MemoryStore::kMinBytes);
  const CompiledPolicy policy("p", {fixed_window(1, kMinute)});
  hit(store, policy, {"spent"}, 0);
  for (int round = 0; round < 200; ++round) {
    const std::string prefix = std::to_string(round);
    const std::string names[] = {prefix + "a", prefix + "b", prefix + "c", prefix + "d"};
    ASSERT_FALSE(hit(store, policy, {names[0], names[1], names[2], names[3], "spent"}, 0).allowed());
    ASSERT_EQ(store.size(), 1U) << round;
  }
  for (int i = 1; i < 20; ++i) EXPECT_TRUE(hit(store, policy, {std::to_string(i)}, 0).allowed());
  EXPECT_EQ(store.size(), 20U);
  EXPECT_FALSE(hit(store, policy, {"spent"}, 0).allowed());
}

}  // namespace
}  // namespace overlimit
