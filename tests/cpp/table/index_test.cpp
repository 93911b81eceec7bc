#include "table/index.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <random>

#include "in_region.hpp"

namespace overlimit::table {
namespace {

class Indexes : public ::testing::Test {
 protected:
  static constexpr std::size_t kCapacity = 4096;
  static constexpr std::size_t kBytes = 4 << 20;
  static constexpr std::size_t kHeads = kCapacity * sizeof(Offset);

  static KeyHash key(std::uint64_t hash, std::uint64_t number = 0) {
    return {hash << 8, static_cast<std::uint32_t>(number)};
  }

  Entry* insert(const KeyHash& key) {
    const Offset offset = arena.allocate(sizeof(Entry), Arena::Purpose::ordinary);
    auto* const entry = new (arena.at<Entry>(offset)) Entry(key, 0, 0);
    index.insert(offset);
    return entry;
  }
  void erase(Entry* entry) {
    index.erase(*entry);
    arena.release(arena.offset_of(entry), sizeof(Entry));
  }
  std::size_t visited() {
    std::size_t count = 0;
    for (std::size_t bucket = 0; bucket < index.buckets(); ++bucket)
      index.visit(bucket, [&](Entry*) { ++count; });
    return count;
  }

  void SetUp() override { index.format(); }

  platform::Pages region = platform::reserve_pages(kBytes);
  testing::OwnArena own{region.get() + kHeads, kBytes - kHeads};
  Arena& arena = own.arena;
  UndoLog log;
  Index::State state{};
  Index index{state, reinterpret_cast<Offset*>(region.get()), kCapacity, arena, log};
};

TEST_F(Indexes, FindTheEntryThatTookTheOthersPlace) {
  for (std::uint64_t number = 0; number < 5; ++number) insert(key(7, number));
  Entry* const old = index.find(key(7, 2));
  const Offset offset = arena.allocate(sizeof(Entry), Arena::Purpose::ordinary);
  auto* const entry = new (arena.at<Entry>(offset)) Entry(key(7, 2), 0, 0);
  index.replace(*old, offset);
  EXPECT_EQ(index.find(key(7, 2)), entry);
  for (std::uint64_t number = 0; number < 5; ++number) EXPECT_NE(index.find(key(7, number)), nullptr);
  EXPECT_EQ(index.size(), 5U);
}

TEST_F(Indexes, GrowAndShrinkWithWhatTheyHold) {
  for (std::uint64_t i = 0; i < 2000; ++i) {
    insert(key(i * 0x9e3779b97f4a7c15));
    ASSERT_EQ(index.buckets(), std::max(Index::kFewest, 2 * index.size()));
  }
  for (std::uint64_t i = 0; i < 2000; ++i) {
    erase(index.find(key(i * 0x9e3779b97f4a7c15)));
    ASSERT_LE(index.buckets(), std::max(Index::kFewest, 3 * index.size()));
    ASSERT_GE(index.buckets(), std::max(Index::kFewest, 2 * index.size()));
  }
}

TEST_F(Indexes, GrowAndShrinkByAFewBucketsAtATime) {
  std::size_t before = index.buckets();
  const auto expect_a_small_step = [&] {
    ASSERT_LE(std::max(before, index.buckets()) - std::min(before, index.buckets()), 4U);
    before = index.buckets();
  };
  for (std::uint64_t i = 0; i < 2000; ++i) {
    insert(key(i));
    expect_a_small_step();
  }
  for (std::uint64_t i = 0; i < 2000; ++i) {
    erase(index.find(key(i)));
    expect_a_small_step();
  }
}

TEST_F(Indexes, HoldMoreThanTheyHaveBuckets) {
  for (std::uint64_t i = 0; i < 3 * kCapacity; ++i) insert(key(i));
  EXPECT_EQ(index.buckets(), kCapacity);
  for (std::uint64_t i = 0; i < 3 * kCapacity; ++i) ASSERT_NE(index.find(key(i)), nullptr);
  EXPECT_EQ(visited(), 3 * kCapacity);
}

TEST_F(Indexes, VisitEverythingThoughTheyShrinkMeanwhile) {
  for (std::uint64_t i = 0; i < 1000; ++i) insert(key(i, i));
  std::size_t kept = 0;
  for (std::size_t bucket = index.buckets(); bucket-- > 0;) {
    index.visit(bucket, [&](Entry* entry) {
      if (entry->key().high % 10 != 0) erase(entry);
    });
  }
  for (std::uint64_t i = 0; i < 1000; ++i) {
    ASSERT_EQ(index.find(key(i, i)) != nullptr, i % 10 == 0) << i;
    kept += i % 10 == 0 ? 1 : 0;
  }
  EXPECT_EQ(index.size(), kept);
  EXPECT_EQ(visited(), kept);
}

TEST_F(Indexes, BehaveLikeAMap) {
  for (unsigned seed = 0; seed < 5; ++seed) {
    std::mt19937 random(seed);
    std::map<std::pair<std::uint64_t, std::uint64_t>, Entry*> model;
    for (int step = 0; step < 40'000; ++step) {
      // In waves, so that it grows and shrinks; few hashes, so that chains are long.
      const bool grows = step / 5'000 % 2 == 0;
      const std::pair id{random() % 700, std::uint64_t{random() % 4}};
      const KeyHash wanted = key(id.first, id.second);
      const auto known = model.find(id);
      ASSERT_EQ(index.find(wanted), known == model.end() ? nullptr : known->second) << step;
      if (known == model.end() && (grows || random() % 4 == 0)) {
        model[id] = insert(wanted);
      } else if (known != model.end() && (!grows || random() % 4 == 0)) {
        erase(known->second);
        model.erase(known);
      }
      ASSERT_EQ(index.size(), model.size());
    }
    EXPECT_EQ(visited(), model.size());
    for (const auto& [id, entry] : model) {
      ASSERT_EQ(index.find(key(id.first, id.second)), entry);
      erase(entry);
    }
    EXPECT_EQ(index.buckets(), Index::kFewest);
  }
}

TEST_F(Indexes, MeanTheSameWhereverTheirMemoryLies) {
  for (std::uint64_t i = 0; i < 500; ++i) insert(key(i, i));
  const platform::Pages other = platform::reserve_pages(kBytes);
  std::memcpy(other.get(), region.get(), kBytes);
  const testing::OwnArena own_copy(other.get() + kHeads, kBytes - kHeads);
  const Arena& copied = own_copy.arena;
  auto* const heads = reinterpret_cast<Offset*>(other.get());
  std::size_t reached = 0;
  for (std::size_t bucket = 0; bucket < index.buckets(); ++bucket) {
    for (Offset offset = heads[bucket]; offset != 0; offset = copied.at<Entry>(offset)->next()) ++reached;
  }
  EXPECT_EQ(reached, 500U);
}

// A whole shard of the largest table, of which only the last blocks are touched.
TEST(IndexesOfTheLargestArena, FindEntriesUpToTheLastOffset) {
  constexpr std::size_t kHeads = 1 << 16;
  constexpr std::size_t kLargestBlock = std::size_t{4} << 20;
  constexpr std::size_t kEntry = 128;
  constexpr std::size_t kEnd = std::size_t{1} << 32;
  constexpr auto kPurpose = Arena::Purpose::common_overflow;  // which lie last
  const platform::Pages heads = platform::reserve_pages(kHeads * sizeof(Offset));
  const platform::Pages region = platform::reserve_pages(kEnd * Arena::kGranule);
  testing::OwnArena own(region.get(), kEnd * Arena::kGranule);
  Arena& arena = own.arena;
  UndoLog log;
  Index::State state{};
  Index index(state, reinterpret_cast<Offset*>(heads.get()), kHeads, arena, log);
  index.format();
  Offset last = 0;
  while (last < kEnd - kLargestBlock / Arena::kGranule) last = arena.allocate(kLargestBlock, kPurpose);
  arena.release(last, kLargestBlock);
  const auto key = [](std::uint64_t number) {
    return KeyHash{number * 0x9e3779b97f4a7c15, static_cast<std::uint32_t>(number)};
  };
  Offset highest = 0;
  for (std::uint64_t i = 0; i < kLargestBlock / kEntry; ++i) {
    const Offset offset = arena.allocate(kEntry, kPurpose);
    ASSERT_GE(offset, last);
    highest = std::max(highest, offset);
    auto* const entry = new (arena.at<Entry>(offset)) Entry(key(i), 0, 0);
    ASSERT_EQ(arena.offset_of(entry), offset);
    index.insert(offset);
  }
  EXPECT_EQ(highest, kEnd - kEntry / Arena::kGranule) << "the last block ends where offsets do";
  for (std::uint64_t i = 0; i < kLargestBlock / kEntry; ++i) {
    Entry* const entry = index.find(key(i));
    ASSERT_NE(entry, nullptr) << i;
    index.erase(*entry);
    arena.release(arena.offset_of(entry), kEntry);
  }
  EXPECT_EQ(index.size(), 0U);
}

}  // namespace
}  // namespace overlimit::table
