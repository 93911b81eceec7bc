#include "table/entry.hpp"

#include <gtest/gtest.h>

#include <deque>
#include <random>
#include <vector>

#include "../limits.hpp"
#include "in_region.hpp"

namespace overlimit::table {
namespace {

using overlimit::testing::fixed_window;
using overlimit::testing::kMinute;
using overlimit::testing::sliding_window;
using overlimit::testing::token_bucket;

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

  memory::Region region{kBytes};
  testing::OwnArena own{region.data(), kBytes};
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
  Entry entry{{1, 2}, 3, At(0), At(0), 2, 0, 0};
  Record records[2];
};
static_assert(sizeof(EntryOfTwo) == sizeof(Entry) + 2 * sizeof(Record));

TEST(Entry, KnowsItsSize) {
  EXPECT_EQ(Entry::size_for(0), sizeof(Entry));
  EXPECT_EQ((Entry{{1, 2}, 3, At(0), At(0), 3, 0, 0}).size(), sizeof(Entry) + 3 * sizeof(Record));
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
