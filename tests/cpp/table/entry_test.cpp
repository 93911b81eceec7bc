#include "table/entry.hpp"

#include <gtest/gtest.h>

#include <deque>
#include <random>
#include <vector>

#include "../limits.hpp"
#include "in_region.hpp"

namespace overlimit::table {
namespace {

using namespace overlimit::testing;

class Records : public ::testing::Test {
 protected:
  static constexpr std::size_t kBytes = 64 << 10;

  void push(std::int64_t at, std::int64_t count, std::size_t dropped = 0) {
    commit(arena, log, record, ChargedRecord<Header>{{at + 1, 1, 0}, dropped, Cell{at, count}}, At(at + 100));
  }
  // Leaves no room for a ring of any size.
  void fill_arena() {
    while (arena.allocate(Arena::kGranule, Arena::Purpose::ordinary) != 0) {
    }
  }
  std::vector<Cell> cells() const {
    const Cells view = cells_of(arena, record);
    std::vector<Cell> copy;
    for (std::size_t i = 0; i < view.size(); ++i) copy.push_back(view[i]);
    return copy;
  }

  platform::Pages region = platform::reserve_pages(kBytes);
  testing::OwnArena own{region.get(), kBytes};
  Arena& arena = own.arena;
  UndoLog log;
  Record record{7, At(0), {}, {}};
};

TEST_F(Records, TakeTheHeaderAndTheExpiryOfACharge) {
  commit(arena, log, record, ChargedRecord<Header>{{1, 2, 3}, 0, std::nullopt}, At(44));
  EXPECT_EQ(record.header, (Header{1, 2, 3}));
  EXPECT_EQ(record.expires_at, 44);
  EXPECT_EQ(record.tag, 7U);
  EXPECT_EQ(record.ring.capacity, 0U) << "no cells, no ring";
}

TEST_F(Records, DoubleTheirRingWhenItIsFull) {
  const std::vector<std::uint32_t> expected{2, 2, 4, 4, 8, 8, 8, 8, 16};
  for (std::size_t i = 0; i < expected.size(); ++i) {
    push(std::int64_t(i), 1);
    EXPECT_EQ(record.ring.capacity, expected[i]);
  }
}

TEST_F(Records, BehaveLikeAQueue) {
  std::mt19937 random(3);
  std::deque<Cell> model;
  for (std::int64_t at = 0; at < 5'000; ++at) {
    const std::size_t dropped =
        random() % 16 == 0 ? SIZE_MAX : std::min<std::size_t>(random() % 3, model.size());
    model.erase(model.begin(), model.begin() + std::ptrdiff_t(std::min(dropped, model.size())));
    model.push_back({at, 5});
    push(at, 5, dropped);
    ASSERT_EQ(cells(), std::vector<Cell>(model.begin(), model.end()));
  }
}

TEST_F(Records, MergeTheNewestTwoCellsIntoTheLaterWhenThereIsNoRoom) {
  push(0, 10);
  push(1, 11);
  fill_arena();
  push(2, 12);
  EXPECT_EQ(cells(), (std::vector<Cell>{{0, 10}, {2, 23}}));
  push(3, 13);
  EXPECT_EQ(cells(), (std::vector<Cell>{{0, 10}, {3, 36}}));
}

TEST_F(Records, CountACellInTheCurrentBlockWhenThereIsNoRoomForAny) {
  fill_arena();
  push(4, 10);
  EXPECT_TRUE(cells().empty());
  EXPECT_EQ(record.header, (Header{5, 11, 0}));
}

TEST_F(Records, UseTheRoomThatDroppedCellsLeave) {
  push(0, 10);
  push(1, 11);
  fill_arena();
  push(2, 12, 1);
  EXPECT_EQ(cells(), (std::vector<Cell>{{1, 11}, {2, 12}}));
}

TEST_F(Records, KeepANoteWithoutAnyRoom) {
  fill_arena();
  commit(arena, log, record, RefundedRecord<Header>{{1, 2, 9}, SIZE_MAX, 0, Cell{0, -7}});
  EXPECT_EQ(cells(), (std::vector<Cell>{{0, -7}}));
  commit(arena, log, record, ChargedRecord<Header>{{1, 2, 9}, SIZE_MAX, Cell{0, -8}}, At(100));
  EXPECT_EQ(cells(), (std::vector<Cell>{{0, -8}}));
  commit(arena, log, record, ChargedRecord<Header>{{1, 2, 8}, SIZE_MAX, std::nullopt}, At(100));
  EXPECT_TRUE(cells().empty());
}

TEST_F(Records, GiveTheirRingsBack) {
  for (int round = 0; round < 10'000; ++round) {
    for (int i = 0; i < 9; ++i) push(i, 1);
    ASSERT_EQ(record.ring.length, 9U);
    drop_cells(arena, record);
    ASSERT_TRUE(cells().empty());
    ASSERT_EQ(record.ring.capacity, 0U);
  }
}

// An entry needs its records right behind it.
struct EntryOfTwo {
  Entry entry{{1, 2}, 3, 2};
  Record records[2];
};
static_assert(sizeof(EntryOfTwo) == sizeof(Entry) + 2 * sizeof(Record));

TEST(Entry, KnowsItsSize) {
  EXPECT_EQ(Entry::size_for(0), sizeof(Entry));
  EXPECT_EQ(Entry({1, 2}, 3, 3).size(), sizeof(Entry) + 3 * sizeof(Record));
}

TEST(Entry, OfOneLimitLiesInTwoCacheLinesWhereverItsBlockBegins) {
  for (std::size_t begin = 0; begin < 64; begin += Arena::kGranule) {
    EXPECT_LE(begin + Entry::size_for(1), 128U);
  }
}

TEST(Entry, KeepsWhatItIsGivenInFewBits) {
  Entry entry({~std::uint64_t{0}, ~std::uint32_t{0}}, ~std::uint64_t{0}, Entry::kMostRecords);
  EXPECT_EQ(entry.created_at(), 0);
  EXPECT_FALSE(entry.is_overflow());
  entry.set_created_at(At(kMaxTime.micros() + 1));
  EXPECT_EQ(entry.created_at(), kMaxTime.micros() + 1);
  EXPECT_EQ(entry.records(), Entry::kMostRecords);
  EXPECT_FALSE(entry.is_overflow());
  entry.make_overflow();
  EXPECT_TRUE(entry.is_overflow());
  EXPECT_EQ(entry.created_at(), kMaxTime.micros() + 1);
  EXPECT_EQ(entry.records(), Entry::kMostRecords);
  EXPECT_TRUE(entry.is_of({~std::uint64_t{0}, ~std::uint32_t{0}}));
  EXPECT_FALSE(entry.is_of({~std::uint64_t{0}, 0}));
  EXPECT_FALSE(entry.is_of({0, ~std::uint32_t{0}}));
}

TEST(Entry, IsKeptUntilAnInstantAndLittleLonger) {
  constexpr std::int64_t kLittle = 5'000'000;
  Entry entry({1, 2}, 3, 0);
  EXPECT_TRUE(entry.is_due(At(0))) << "nothing was charged";
  for (const std::int64_t at :
       {std::int64_t{1}, std::int64_t{1'700'000'000'000'001}, kMaxTime.micros() - 1, kExact - kLittle}) {
    entry.keep_until(At(at));
    EXPECT_FALSE(entry.is_due(At(at - 1))) << at;
    EXPECT_TRUE(entry.is_due(At(at + kLittle))) << at;
    Entry other({1, 2}, 3, 0);
    other.keep_as_long_as(entry);
    EXPECT_FALSE(other.is_due(At(at - 1))) << at;
    EXPECT_TRUE(other.is_due(At(at + kLittle))) << at;
  }
}

TEST(Entry, IsKeptUntilItsRecordsHaveExpiredAndNotAMicrosecondLonger) {
  EntryOfTwo two{.records = {{1, At(5), {}, {}}, {2, At(0), {}, {}}}};
  for (const std::int64_t at :
       {std::int64_t{6}, std::int64_t{1'700'000'000'000'001}, kMaxTime.micros() - 1, kExact - 1}) {
    two.records[1].expires_at = At(at);
    two.entry.keep_for_records();
    EXPECT_FALSE(two.entry.is_due(At(at - 1))) << at;
    EXPECT_TRUE(two.entry.is_due(At(at))) << at;
  }
}

TEST(Entry, HasTheWrongSealOnceAnyBitOfItHasChangedButItsPlaceInTheIndex) {
  EntryOfTwo two{.records = {{1, At(50), {1, 2, 3}, {}}, {2, At(40), {4, 5, 6}, {}}}};
  two.entry.set_seal();
  const auto bytes = std::as_writable_bytes(std::span(&two, 1));
  constexpr std::size_t next = 12;
  for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    // Another number of records would be read from behind them.
    if (bit / 8 == 30 || bit / 8 == 31) continue;
    const auto mask = std::byte(1U << bit % 8);
    bytes[bit / 8] ^= mask;
    EXPECT_EQ(two.entry.has_right_seal(), bit / 8 >= next && bit / 8 < next + sizeof(Offset)) << bit;
    bytes[bit / 8] ^= mask;
  }
  EXPECT_TRUE(two.entry.has_right_seal());
}

TEST(Entry, ExpiresWithTheLastOfItsRecords) {
  EntryOfTwo two{.records = {{1, At(50), {}, {}}, {2, At(40), {}, {}}}};
  EXPECT_EQ(two.entry.last_expiry(), 50);
  two.records[1].expires_at = At(60);
  EXPECT_EQ(two.entry.last_expiry(), 60);
}

TEST(Entry, FitsLimitsWhoseTagsItBeginsWith) {
  const CompiledPolicy policy("p", {fixed_window(1, kMinute), sliding_window(1, kMinute)});
  const std::span<const Tag> tags = policy.tags();
  EntryOfTwo two{.records = {{tags[0], At(0), {}, {}}, {tags[1], At(0), {}, {}}}};
  EXPECT_TRUE(starts_with(two.entry, tags));
  EXPECT_TRUE(starts_with(two.entry, tags.first(1)));
  EXPECT_FALSE(starts_with(two.entry, tags.last(1)));
  const CompiledPolicy three("p", {fixed_window(1, kMinute), sliding_window(1, kMinute), token_bucket(1, 1)});
  EXPECT_FALSE(starts_with(two.entry, three.tags()));
  std::swap(two.records[0], two.records[1]);
  EXPECT_FALSE(starts_with(two.entry, tags));
}

}  // namespace
}  // namespace overlimit::table
