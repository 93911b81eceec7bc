#include "table/arena.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <random>
#include <set>
#include <span>
#include <vector>

#include "in_region.hpp"

namespace overlimit::table {
namespace {

constexpr std::size_t kGranule = Arena::kGranule;
constexpr auto kOrdinary = Arena::Purpose::ordinary;
constexpr auto kPolicyOverflow = Arena::Purpose::policy_overflow;
constexpr auto kGrownEntry = Arena::Purpose::grown_entry;
constexpr auto kCommonOverflow = Arena::Purpose::common_overflow;

// 1,024 granules, of which the first two are never handed out and an eighth is kept back.
class Arenas : public ::testing::Test {
 protected:
  static constexpr std::size_t kGranules = 1024;
  static constexpr std::size_t kFirst = 2;
  static constexpr std::size_t kReserve = kGranules / 8;

  std::size_t fill(std::size_t bytes, Arena::Purpose purpose) {
    std::size_t blocks = 0;
    for (; arena.allocate(bytes, purpose) != 0; ++blocks) {
    }
    return blocks;
  }
  // How many granules a block takes when it is cut from fresh room.
  std::size_t granules_for(std::size_t bytes) {
    const Offset block = arena.allocate(bytes, kOrdinary);
    return arena.allocate(kGranule, kOrdinary) - block;
  }

  platform::Pages region = platform::reserve_pages(kGranules * kGranule);
  testing::OwnArena own{region.get(), kGranules* kGranule};
  Arena& arena = own.arena;
};

TEST_F(Arenas, RoundBlocksUpToWholeGranules) {
  EXPECT_EQ(granules_for(1), 1U);
  EXPECT_EQ(granules_for(kGranule), 1U);
  EXPECT_EQ(granules_for(kGranule + 1), 2U);
  EXPECT_EQ(granules_for(31 * kGranule), 31U);
  EXPECT_EQ(granules_for(32 * kGranule), 32U);
}

TEST_F(Arenas, RoundLargeBlocksUpToPowersOfTwo) {
  EXPECT_EQ(granules_for(32 * kGranule + 1), 64U);
  EXPECT_EQ(granules_for(64 * kGranule), 64U);
  EXPECT_EQ(granules_for(65 * kGranule), 128U);
}

TEST_F(Arenas, NeverHandOutNoBlockAsABlock) {
  EXPECT_NE(arena.allocate(1, kOrdinary), 0U);
  EXPECT_EQ(arena.allocate(0, kOrdinary), 0U);
}

TEST_F(Arenas, RefuseWhatIsLargerThanAnyClass) {
  EXPECT_EQ(arena.allocate(kGranules * kGranule, kCommonOverflow), 0U);
  EXPECT_EQ(arena.allocate(std::size_t{1} << 40, kCommonOverflow), 0U);
  EXPECT_NE(arena.allocate(1, kOrdinary), 0U);
}

TEST_F(Arenas, TranslateBetweenOffsetsAndAddresses) {
  const Offset block = arena.allocate(100, kOrdinary);
  EXPECT_EQ(arena.offset_of(arena.at<std::byte>(block)), block);
  EXPECT_EQ(arena.at<std::byte>(block), region.get() + block * kGranule);
}

TEST_F(Arenas, ReuseABlockForOthersOfItsClass) {
  const Offset block = arena.allocate(3 * kGranule, kOrdinary);
  arena.release(block, 3 * kGranule);
  EXPECT_EQ(arena.allocate(2 * kGranule + 1, kOrdinary), block);
  EXPECT_NE(arena.allocate(3 * kGranule, kOrdinary), block);
}

TEST_F(Arenas, CutBlocksOfFourGranulesWhereTwoCacheLinesHoldThem) {
  for (int i = 0; i < 10; ++i) EXPECT_EQ(arena.allocate(4 * kGranule, kOrdinary) % 2, 0U);
}

TEST_F(Arenas, KeepAnEighthBackForWhatIsNotOrdinary) {
  EXPECT_EQ(fill(kGranule, kOrdinary), kGranules - kFirst - kReserve);
  EXPECT_EQ(fill(kGranule, kPolicyOverflow), kReserve / 2);
  EXPECT_EQ(fill(kGranule, kGrownEntry), kReserve / 4);
  EXPECT_EQ(fill(kGranule, kCommonOverflow), kReserve / 4);
}

TEST_F(Arenas, GiveWhatMayFailLeastAllTheyHave) {
  EXPECT_EQ(fill(kGranule, kCommonOverflow), kGranules - kFirst);
}

TEST_F(Arenas, KeepAPartForItsPurposeWhenItsBlocksAreGivenBack) {
  std::vector<Offset> cells;
  for (std::size_t i = 0; i < kReserve / 4 / 4; ++i) {
    cells.push_back(arena.allocate(4 * kGranule, kCommonOverflow));
  }
  EXPECT_EQ(fill(kGranule, kGrownEntry), kGranules - kFirst - kReserve / 4);
  for (const Offset block : cells) arena.release(block, 4 * kGranule);
  for (const auto purpose : {kOrdinary, kPolicyOverflow, kGrownEntry}) EXPECT_EQ(fill(kGranule, purpose), 0U);
  EXPECT_EQ(fill(4 * kGranule, kCommonOverflow), cells.size());
}

TEST_F(Arenas, SplitLargerBlocksWhenNothingElseIsLeft) {
  const Offset large = arena.allocate(100 * kGranule, kOrdinary);
  fill(kGranule, kOrdinary);
  arena.release(large, 100 * kGranule);
  std::set<Offset> pieces;
  while (const Offset piece = arena.allocate(3 * kGranule, kOrdinary)) {
    EXPECT_GE(piece, large);
    EXPECT_LE(piece + 3, large + 128);
    pieces.insert(piece);
  }
  EXPECT_GE(pieces.size(), 128U / 3 - 4) << "a little is lost where pieces do not divide";
  EXPECT_LE(pieces.size(), 128U / 3);
  for (auto piece = pieces.begin(), next = std::next(piece); next != pieces.end(); ++piece, ++next) {
    EXPECT_GE(*next - *piece, 3U);
  }
}

TEST_F(Arenas, LoseNothingWhenTheyAreFilledAndEmptiedOverAndOver) {
  const std::size_t first = fill(5 * kGranule, kOrdinary);
  for (int round = 0; round < 3; ++round) {
    for (std::size_t i = 0; i < first; ++i) arena.release(Offset(kFirst + 5 * i), 5 * kGranule);
    EXPECT_EQ(fill(5 * kGranule, kOrdinary), first);
  }
}

TEST_F(Arenas, RejoinNeighboursWhenLargeBlocksFindNoRoom) {
  std::vector<Offset> small;
  while (const Offset block = arena.allocate(kGranule, kOrdinary)) small.push_back(block);
  for (const Offset block : small) arena.release(block, kGranule);
  const std::size_t large = 64 * kGranule;
  const std::size_t fits = (kGranules - kReserve - 1) / 64;
  EXPECT_EQ(fill(large, kOrdinary), fits);
}

TEST_F(Arenas, HaveAllTheirRoomAgainWhenTheyAreCleared) {
  const std::size_t blocks = fill(kGranule, kOrdinary);
  arena.clear();
  EXPECT_EQ(fill(kGranule, kOrdinary), blocks);
}

// Blocks that know what was written into them.
class Blocks {
 public:
  explicit Blocks(Arena& arena) : arena_(arena) {}

  void allocate(std::size_t bytes, Arena::Purpose purpose, std::mt19937& random) {
    const Offset block = arena_.allocate(bytes, purpose);
    if (block == 0) return;
    const auto mark = static_cast<unsigned char>(random());
    std::memset(arena_.at<unsigned char>(block), mark, bytes);
    ASSERT_TRUE(held_.emplace(block, Held{bytes, mark}).second);
    ASSERT_EQ(reinterpret_cast<std::uintptr_t>(arena_.at<std::byte>(block)) % kGranule, 0U);
  }
  void release(std::mt19937& random) {
    auto chosen = held_.lower_bound(Offset(random() % kGranulesInAll));
    if (chosen == held_.end()) return;
    const std::span bytes(arena_.at<unsigned char>(chosen->first), chosen->second.bytes);
    ASSERT_TRUE(std::ranges::all_of(bytes, [&](unsigned char byte) { return byte == chosen->second.mark; }));
    arena_.release(chosen->first, chosen->second.bytes);
    held_.erase(chosen);
  }
  void check_apart() const {
    std::size_t end = 0;
    for (const auto& [block, held] : held_) {
      ASSERT_GE(block * kGranule, end);
      end = block * kGranule + held.bytes;
    }
    ASSERT_LE(end, kGranulesInAll * kGranule);
  }
  [[nodiscard]] std::size_t size() const { return held_.size(); }

 private:
  static constexpr std::size_t kGranulesInAll = 1024;
  struct Held {
    std::size_t bytes;
    unsigned char mark;
  };
  Arena& arena_;
  std::map<Offset, Held> held_;
};

TEST_F(Arenas, NeverHandOutTheSameByteTwiceNorWriteIntoABlock) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    const platform::Pages memory = platform::reserve_pages(kGranules * kGranule);
    testing::OwnArena other_arena(memory.get(), kGranules * kGranule);
    Arena& other = other_arena.arena;
    constexpr std::array kPurposes{kPolicyOverflow, kGrownEntry, kCommonOverflow};
    Blocks blocks(other);
    for (int step = 0; step < 3'000; ++step) {
      if (random() % 5 < 3) {
        const std::size_t largest = random() % 8 == 0 ? 4'000 : 300;
        blocks.allocate(1 + random() % largest, random() % 4 == 0 ? kPurposes[random() % 3] : kOrdinary,
                        random);
      } else {
        blocks.release(random);
      }
      if (step % 50 == 0) blocks.check_apart();
      if (HasFatalFailure()) return;
    }
    EXPECT_GT(blocks.size(), 20U);
  }
}

}  // namespace
}  // namespace overlimit::table
