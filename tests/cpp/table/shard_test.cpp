#include "table/shard.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "../limits.hpp"
#include "../threads.hpp"
#include "in_region.hpp"
#include "overlimit/errors.hpp"

namespace overlimit::table {
namespace {

using namespace overlimit::testing;

constexpr std::size_t kBuckets = 64;

// A key whose bucket is known.
KeyHash key_at(std::uint64_t home, std::uint64_t number = 0) {
  return {home << 8, static_cast<std::uint32_t>(number)};
}

class Shards : public ::testing::Test {
 protected:
  static constexpr std::size_t kBytes = 64 << 10;

  Entry* insert(const KeyHash& key) {
    return shard.insert(key, policy.digest(), policy.tags(), Arena::Purpose::ordinary);
  }
  Entry* insert_cell(const KeyHash& key) {
    return shard.insert(key, policy.digest(), policy.tags(), Arena::Purpose::policy_overflow);
  }
  static Record* record_of(Entry& entry, const Limit& limit) {
    return std::ranges::find(entry.begin(), entry.end(), limit.tag(), &Record::tag);
  }
  void charge(Record& record, std::int64_t at, std::int64_t count) {
    commit(shard.arena(), shard.log(), record, ChargedRecord<Header>{{at + 1, 1, 0}, 0, Cell{at, count}},
           At(at + 100));
  }
  std::vector<Cell> cells(const Record& record) const {
    const Cells view = cells_of(shard.arena(), record);
    std::vector<Cell> copy;
    for (std::size_t i = 0; i < view.size(); ++i) copy.push_back(view[i]);
    return copy;
  }

  const CompiledPolicy policy{"p", {fixed_window(5, kMinute)}};
  platform::Pages region = platform::reserve_pages(kBytes);
  Totals totals{.max_keys = 32};
  testing::OwnShard own{std::span(region.get(), kBytes), kBuckets, totals};
  Shard& shard = own.shard;
};

TEST_F(Shards, StartAnEntryWithAnEmptyRecordPerLimit) {
  Entry& entry = *insert(key_at(3));
  EXPECT_EQ(entry.key(), key_at(3));
  EXPECT_EQ(entry.created_at(), 0);
  EXPECT_EQ(entry.records(), 1U);
  EXPECT_TRUE(starts_with(entry, policy.tags()));
  EXPECT_EQ(entry.begin()->expires_at, 0);
  EXPECT_EQ(entry.begin()->header, Header{});
}

TEST_F(Shards, TrackNoMoreKeysThanTheTotalsAllow) {
  for (std::uint64_t home = 0; home < 32; ++home) {
    EXPECT_FALSE(shard.is_full());
    ASSERT_NE(insert(key_at(home)), nullptr);
  }
  EXPECT_TRUE(shard.is_full());
  EXPECT_EQ(insert(key_at(40)), nullptr);
  EXPECT_EQ(shard.find(key_at(40)), nullptr);
  EXPECT_EQ(totals.tracked, 32U);
  shard.erase(shard.find(key_at(0)));
  EXPECT_NE(insert(key_at(40)), nullptr);
}

TEST_F(Shards, HaveRoomForOverflowEntriesWhenTheyAreFull) {
  for (std::uint64_t home = 0; home < 32; ++home) insert(key_at(home));
  EXPECT_FALSE(shard.has_overflow_entries());
  Entry* cell = insert_cell(key_at(40));
  EXPECT_TRUE(cell->is_overflow());
  EXPECT_TRUE(shard.has_overflow_entries());
  EXPECT_EQ(totals.tracked, 32U);
  shard.erase(cell);
  EXPECT_FALSE(shard.has_overflow_entries());
  EXPECT_EQ(totals.tracked, 32U);
}

TEST_F(Shards, CountAKeyOnlyWhenThereAreBytesForIt) {
  Totals many{.max_keys = 100'000};
  const platform::Pages small_region = platform::reserve_pages(8 << 10);
  testing::OwnShard own_small(std::span(small_region.get(), 8 << 10), kBuckets, many);
  Shard& small = own_small.shard;
  std::size_t inserted = 0;
  while (small.insert(key_at(inserted, inserted), policy.digest(), policy.tags(), Arena::Purpose::ordinary) !=
         nullptr)
    ++inserted;
  EXPECT_EQ(many.tracked, inserted);
  EXPECT_GT(inserted, 8192U / Entry::size_for(1) / 2);
  EXPECT_LT(inserted, 8192U / Entry::size_for(1));
}

TEST_F(Shards, AreFullWhenTheLastKeyFoundNoBytesUntilOneDoes) {
  Totals many{.max_keys = 100'000};
  const platform::Pages small_region = platform::reserve_pages(8 << 10);
  testing::OwnShard own_small(std::span(small_region.get(), 8 << 10), kBuckets, many);
  Shard& small = own_small.shard;
  const CompiledPolicy large("large", std::vector(16, fixed_window(5, kMinute)));
  std::uint64_t inserted = 0;
  for (; small.insert(key_at(inserted, inserted), large.digest(), large.tags(), Arena::Purpose::ordinary) !=
         nullptr;
       ++inserted) {
    ASSERT_FALSE(small.is_full());
  }
  EXPECT_TRUE(small.is_full());
  small.insert(key_at(50), policy.digest(), policy.tags(), Arena::Purpose::policy_overflow);
  EXPECT_TRUE(small.is_full()) << "a cell is no ordinary key";
  small.erase(small.find(key_at(0, 0)));
  EXPECT_TRUE(small.is_full());
  EXPECT_NE(small.insert(key_at(51), policy.digest(), policy.tags(), Arena::Purpose::ordinary), nullptr);
  EXPECT_FALSE(small.is_full());
}

TEST_F(Shards, HaveAllTheirRoomAgainWhenTheyAreEmpty) {
  Totals many{.max_keys = 100'000};
  const platform::Pages small_region = platform::reserve_pages(16 << 10);
  testing::OwnShard own_small(std::span(small_region.get(), 16 << 10), 2 * kBuckets, many);
  Shard& small = own_small.shard;
  const CompiledPolicy large("large", std::vector(16, fixed_window(5, kMinute)));
  const auto fill = [&](const CompiledPolicy& filled) {
    std::uint64_t inserted = 0;
    while (small.insert(key_at(inserted, inserted), filled.digest(), filled.tags(),
                        Arena::Purpose::ordinary) != nullptr)
      ++inserted;
    for (std::uint64_t i = 0; i < inserted; ++i) small.erase(small.find(key_at(i, i)));
    return inserted;
  };
  const std::uint64_t large_ones = fill(large);
  EXPECT_GT(large_ones, 5U);
  EXPECT_GT(fill(policy), 3 * large_ones);
  EXPECT_EQ(fill(large), large_ones);
}

class Conforming : public Shards {
 protected:
  const Limit fixed = fixed_window(5, kMinute);
  const Limit sliding = sliding_window(5, kMinute);
  const Limit other = sliding_window(5, kSecond);
  const CompiledPolicy before{"p", {fixed, sliding}};

  Entry* entry = make();
  Entry* make() {
    Entry* made = shard.insert(key_at(3), before.digest(), before.tags(), Arena::Purpose::ordinary);
    made->set_created_at(At(17));
    made->keep_until(At(18 * kSecond));
    Record& window = *record_of(*made, fixed);
    window.header = {1, 2, 3};
    window.expires_at = At(100);
    for (int at = 0; at < 5; ++at) charge(*record_of(*made, sliding), at, 10);
    return made;
  }
};

TEST_F(Conforming, KeepsTheStateOfKnownTags) {
  const CompiledPolicy after("p", {other, sliding});
  entry = shard.with_records(entry, after.tags(), At(200));
  EXPECT_TRUE(starts_with(*entry, after.tags()));
  EXPECT_EQ(cells(*record_of(*entry, sliding)),
            (std::vector<Cell>{{0, 10}, {1, 10}, {2, 10}, {3, 10}, {4, 10}}));
  EXPECT_EQ(record_of(*entry, sliding)->header, (Header{5, 1, 0}));
  EXPECT_EQ(record_of(*entry, other)->expires_at, 0);
}

TEST_F(Conforming, KeepsWhatTheEntryIs) {
  entry = shard.with_records(entry, CompiledPolicy("p", {sliding}).tags(), At(200));
  EXPECT_EQ(shard.find(key_at(3)), entry);
  EXPECT_EQ(entry->key(), key_at(3));
  EXPECT_EQ(entry->created_at(), 17);
  EXPECT_FALSE(entry->is_due(At(18 * kSecond - 1)));
  EXPECT_TRUE(entry->is_due(At(23 * kSecond)));
  EXPECT_FALSE(entry->is_overflow());
  EXPECT_EQ(totals.tracked, 1U);
}

TEST_F(Conforming, CarriesForeignRecordsUntilTheyExpire) {
  const CompiledPolicy after("p", {sliding});
  entry = shard.with_records(entry, after.tags(), At(99));
  ASSERT_EQ(entry->records(), 2U);
  EXPECT_EQ(entry->begin()->tag, sliding.tag()) << "the policy's own come first";
  EXPECT_EQ(record_of(*entry, fixed)->header, (Header{1, 2, 3}));
  entry = shard.with_records(entry, after.tags(), At(100));
  EXPECT_EQ(entry->records(), 1U);
}

TEST_F(Conforming, FindsACarriedRecordAgainWhenTheOldPolicyReturns) {
  entry = shard.with_records(entry, CompiledPolicy("p", {other}).tags(), At(50));
  EXPECT_EQ(entry->records(), 3U);
  entry = shard.with_records(entry, before.tags(), At(50));
  EXPECT_EQ(record_of(*entry, fixed)->header, (Header{1, 2, 3}));
  EXPECT_EQ(cells(*record_of(*entry, sliding)).size(), 5U);
}

TEST(ShardsWithMuchRoom, KeepNoMoreRecordsForAKeyThanAnEntryCanCount) {
  constexpr std::size_t kMuch = std::size_t{8} << 20;
  const platform::Pages region = platform::reserve_pages(kMuch);
  Totals totals{.max_keys = 10};
  testing::OwnShard own(std::span(region.get(), kMuch), kBuckets, totals);
  const std::vector<Tag> one{1};
  Entry* entry = own.shard.insert(key_at(1), 2, one, Arena::Purpose::ordinary);
  std::vector<Tag> tags(Entry::kMostRecords);
  std::iota(tags.begin(), tags.end(), Tag{1});
  entry = own.shard.with_records(entry, tags, At(0));
  EXPECT_EQ(entry->records(), Entry::kMostRecords);
  tags.push_back(2000);
  EXPECT_THROW(own.shard.with_records(entry, tags, At(0)), OutOfMemory);
  EXPECT_EQ(own.shard.find(key_at(1)), entry);
}

TEST_F(Conforming, LosesNoMemory) {
  const CompiledPolicy after("p", {other});
  for (int round = 0; round < 10'000; ++round) {
    entry = shard.with_records(entry, after.tags(), At(1'000));
    ASSERT_EQ(entry->records(), 1U);
    for (int at = 0; at < 5; ++at) charge(*record_of(*entry, other), at, 10);
    entry = shard.with_records(entry, before.tags(), At(1'000));
    for (int at = 0; at < 5; ++at) charge(*record_of(*entry, sliding), at, 10);
    ASSERT_EQ(cells(*record_of(*entry, sliding)).size(), 5U);
  }
}

TEST_F(Conforming, KeepsAnOverflowEntryOne) {
  Entry* cell = shard.insert(key_at(9), before.digest(), before.tags(), Arena::Purpose::policy_overflow);
  EXPECT_TRUE(shard.with_records(cell, CompiledPolicy("p", {sliding}).tags(), At(200))->is_overflow());
  EXPECT_TRUE(shard.has_overflow_entries());
}

class Copying : public Conforming {
 protected:
  Entry* from = shard.insert(key_at(40), before.digest(), before.tags(), Arena::Purpose::policy_overflow);
  void SetUp() override {
    Record& window = *record_of(*from, fixed);
    window.header = {7, 8, 9};
    window.expires_at = At(300);
    for (int at = 0; at < 5; ++at) charge(*record_of(*from, sliding), at, 20);
    record_of(*from, sliding)->header = {5, 1, 101};
    from->keep_until(At(301 * kSecond));
  }
};

TEST_F(Copying, StartsAnEntryFromWhatAnotherOneHolds) {
  const CompiledPolicy one("p", {sliding});
  Entry& to = *shard.insert(key_at(41), one.digest(), one.tags(), Arena::Purpose::ordinary);
  shard.copy_records(to, *from);
  EXPECT_EQ(to.begin()->header, (Header{5, 1, 101}));
  EXPECT_EQ(to.begin()->expires_at, 104);
  EXPECT_EQ(cells(*to.begin()), cells(*record_of(*from, sliding)));
  EXPECT_FALSE(to.is_due(At(301 * kSecond - 1)));
  EXPECT_TRUE(to.is_due(At(306 * kSecond)));
  EXPECT_EQ(to.created_at(), 0) << "a key of its own";
}

TEST_F(Copying, LeavesTheOtherOneItsCells) {
  Entry& to = *shard.insert(key_at(41), before.digest(), before.tags(), Arena::Purpose::ordinary);
  shard.copy_records(to, *from);
  shard.erase(&to);
  EXPECT_EQ(cells(*record_of(*from, sliding)).size(), 5U);
  EXPECT_EQ(cells(*record_of(*from, sliding))[4], (Cell{4, 20}));
}

TEST_F(Copying, CountsEveryChargeUntilItLeavesEvenWithoutRoomForCells) {
  Entry& to = *shard.insert(key_at(41), before.digest(), before.tags(), Arena::Purpose::ordinary);
  while (shard.arena().allocate(Arena::kGranule, Arena::Purpose::grown_entry) != 0) {
  }
  shard.copy_records(to, *from);
  const Record& copy = *record_of(to, sliding);
  std::int64_t counted = copy.header[1];
  for (const Cell& cell : cells(copy)) counted += cell.count;
  EXPECT_EQ(counted, copy.header[2]) << "or its total would never come down again";
  EXPECT_EQ(counted, 101);
}

class Sweeping : public Shards {
 protected:
  void SetUp() override {
    for (std::uint64_t home = 0; home < 10; ++home)
      insert(key_at(home))->keep_until(At(Micros(10 + 5 * home) * kSecond));
  }
  std::size_t left() { return totals.tracked; }
};

TEST_F(Sweeping, DropsWhatIsDueAndNotOneMicrosecondEarlier) {
  shard.sweep(At(35 * kSecond - 1), 1000);
  EXPECT_EQ(left(), 5U);
  EXPECT_EQ(shard.find(key_at(4)), nullptr);
  EXPECT_NE(shard.find(key_at(5)), nullptr);
}

TEST_F(Sweeping, LooksAtAFewBucketsAndGoesOnWhereItStopped) {
  shard.sweep(At(100 * kSecond), 14);
  EXPECT_GE(left(), 1U);
  EXPECT_LT(left(), 10U);
  for (int calls = 0; calls < 5; ++calls) shard.sweep(At(100 * kSecond), 4);
  EXPECT_EQ(left(), 0U);
}

TEST_F(Sweeping, ComesAroundTheEndOfTheIndex) {
  shard.sweep(At(0), 60);
  shard.sweep(At(100 * kSecond), 40);
  EXPECT_EQ(left(), 0U);
}

TEST_F(Sweeping, FindsEverythingDueInACrowd) {
  for (std::uint64_t number = 1; number < 20; ++number)
    insert(key_at(5, number))->keep_until(At(50 * kSecond));
  shard.sweep(At(60 * kSecond), 200);
  EXPECT_EQ(left(), 0U);
}

TEST(Totals, IsNeverSeenAboveItsBound) {
  Totals totals{.max_keys = 1};
  std::atomic<int> too_many = 0;
  in_threads(4, [&](std::ptrdiff_t) {
    for (int step = 0; step < 20'000; ++step) {
      const bool admitted = totals.try_add();
      if (totals.tracked > 1) ++too_many;
      if (admitted) totals.remove();
    }
  });
  EXPECT_EQ(too_many, 0);
  EXPECT_EQ(totals.tracked, 0U);
}

}  // namespace
}  // namespace overlimit::table
