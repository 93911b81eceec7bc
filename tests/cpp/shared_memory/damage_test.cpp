// Bytes of a shared file are changed at random: calls fail or answer, and never crash; and keys of which
// nothing was changed are never granted more than is left.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "../calls.hpp"
#include "../examples.hpp"
#include "../limits.hpp"
#include "overlimit/errors.hpp"
#include "own_file.hpp"

namespace overlimit {
namespace {

using shared_memory::Attachment;
using shared_memory::SharedTable;
using shared_memory::TableHead;
using table::Entry;
using namespace testing;

constexpr int kKeys = 150;
constexpr int kLimit = 8;

std::string name_of(int number) { return "id:" + std::to_string(number); }

struct Range {
  std::size_t begin;
  std::size_t end;
};

class Damage : public ::testing::Test {
 protected:
  void SetUp() override {
    for (int i = 0; i < kKeys; ++i) {
      for (int hits = 0; hits < used_by(i); ++hits) hit(store, policy, {name_of(i)}, kNow);
    }
    for (int i = 0; i < 40; ++i) hit(store, policy, {"old:" + std::to_string(i)}, kNow - 2 * kHour);
    for (int i = 0; i < kKeys; ++i) matters.push_back(ranges_of(name_of(i)));
    const Attachment& attachment = attachment_of(file);
    const std::byte* const base = attachment.mapping().base();
    bytes.assign(base, base + attachment.mapping().bytes());
  }
  static int used_by(int key) { return key % (kLimit + 1); }

  /// All bytes that say what a key has left: what all keys need, its chain, its entry and its cells.
  std::vector<Range> ranges_of(const std::string& identifier) {
    Attachment& attachment = attachment_of(file);
    const std::byte* const base = attachment.mapping().base();
    table::Table& table = attachment.view<SharedTable>().table();
    const auto key = table.state().hash(policy.digest(), identifier);
    table::Shard& shard = *table.shards()[0];
    std::vector<Range> ranges{{0, sizeof(TableHead)}};
    const auto add = [&](const void* begin, std::size_t size) {
      const auto at = std::size_t(static_cast<const std::byte*>(begin) - base);
      ranges.push_back({at / 8 * 8, (at + size + 7) / 8 * 8});
    };
    add(&shard.state(), sizeof(table::ShardState));
    for (const void* part : shard.path_to(key)) add(part, sizeof(Entry));
    Entry* const entry = shard.find(key);
    if (entry == nullptr) return ranges;
    add(entry, entry->size());
    for (const table::Record& record : *entry) {
      if (record.ring.capacity == 0) continue;
      const std::size_t size = record.ring.capacity * sizeof(Cell);
      add(shard.arena().at<const std::byte>(record.ring.cells, size), size);
    }
    return ranges;
  }

  static bool is_touched(const std::vector<Range>& ranges, const std::vector<std::size_t>& places) {
    return std::ranges::any_of(places, [&](std::size_t place) {
      return std::ranges::any_of(
          ranges, [&](const Range& range) { return range.begin <= place && place < range.end; });
    });
  }

  /// Whether all keys can be copied, some in each step.
  static bool can_be_looked_at(SharedMemoryStore& store) {
    std::vector<KeptKey> keys;
    try {
      for (std::size_t below = ~std::size_t{0}; below > 0;) below = store.copy_keys(0, below, 10, keys, {});
      (void)store.copy_key(PolicyIdentity("p"), name_of(1), {});
    } catch (const StoreError&) {
      return false;
    }
    return true;
  }

  /// Asks for everything in a copy with these bytes changed. Returns how many calls failed.
  int try_all(const std::vector<std::size_t>& places, std::mt19937& random) {
    std::vector<std::byte> changed = bytes;
    for (const std::size_t place : places) changed[place] ^= std::byte(1 + random() % 255);
    const OwnFile copy(changed);
    auto options = copy.options();
    options.timeout = For(10'000);
    SharedMemoryStore damaged(options);
    int failures = can_be_looked_at(damaged) ? 0 : 1;
    std::vector<int> order(kKeys);
    for (int i = 0; i < kKeys; ++i) order[std::size_t(i)] = i;
    std::ranges::shuffle(order, random);
    for (const int i : order) {
      int admitted = 0;
      try {
        for (int hits = 0; hits < kLimit + 2; ++hits) {
          if (hit(damaged, policy, {name_of(i)}, kNow).allowed()) ++admitted;
        }
        hit(damaged, policy, {"new:" + std::to_string(i)}, kNow);
      } catch (const StoreTimeout&) {
        return failures + 1;  // a lock that nobody will release
      } catch (const StoreError&) {
        ++failures;
      }
      if (!is_touched(matters[std::size_t(i)], places)) {
        EXPECT_LE(admitted, kLimit - used_by(i)) << name_of(i);
      }
    }
    return failures;
  }

  const CompiledPolicy policy{"p", {fixed_window(kLimit, kHour), sliding_log(100, kMinute)}};
  OwnFile file;
  SharedMemoryStore store{file.options(1000, SharedMemoryStore::kMinBytes)};
  std::vector<std::byte> bytes;
  std::vector<std::vector<Range>> matters;
};

TEST_F(Damage, AnywhereNeverCrashesAndNeverGrantsMore) {
  int failures = 0;
  for (int seed = 0; seed < examples(400); ++seed) {
    std::mt19937 random(static_cast<unsigned>(seed));
    std::vector<std::size_t> places;
    for (std::size_t i = 0; i < 1 + random() % 200; ++i) places.push_back(random() % bytes.size());
    failures += try_all(places, random) > 0 ? 1 : 0;
    if (HasFailure()) FAIL() << "seed " << seed;
  }
  EXPECT_GT(failures, examples(40));
}

// Where there is something to break.
TEST_F(Damage, OfWhatIsInUseNeverCrashesAndNeverGrantsMore) {
  std::vector<std::size_t> used;
  for (std::size_t place = sizeof(TableHead); place < bytes.size(); ++place) {
    if (bytes[place] != std::byte{0}) used.push_back(place);
  }
  ASSERT_GT(used.size(), 5'000U);
  int failures = 0;
  for (int seed = 0; seed < examples(800); ++seed) {
    std::mt19937 random(static_cast<unsigned>(seed));
    std::vector<std::size_t> places;
    for (std::size_t i = 0; i < 1 + random() % 5; ++i) places.push_back(used[random() % used.size()]);
    failures += try_all(places, random) > 0 ? 1 : 0;
    if (HasFailure()) FAIL() << "seed " << seed;
  }
  EXPECT_GT(failures, examples(80));
}

TEST_F(Damage, OfTheHeaderIsNoticedAtOnce) {
  for (std::size_t place = 0; place < sizeof(shared_memory::Header); ++place) {
    std::mt19937 random(unsigned(place) + 1);
    const bool is_boot_id =
        place >= offsetof(shared_memory::Header, boot_id) && place < offsetof(shared_memory::Header, check);
    if (is_boot_id) continue;
    EXPECT_GT(try_all({place}, random), 0) << place;
  }
}

TEST_F(Damage, EmptyAndZeroedFilesAreNotOursAndLeftAlone) {
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, sizeof(TableHead), std::size_t{1} << 18}) {
    const OwnFile empty(std::vector(size, std::byte{0}));
    SharedMemoryStore opened(empty.options());
    EXPECT_THROW(hit(opened, policy, {"a"}, kNow), StoreConfigError) << size;
    EXPECT_THROW(opened.unlink(), StoreConfigError) << size;
    EXPECT_EQ(std::filesystem::file_size(empty.path()), size);
    std::filesystem::remove(empty.path());
    SharedMemoryStore anew(empty.options());
    EXPECT_TRUE(hit(anew, policy, {"a"}, kNow).allowed()) << "once the file is removed";
  }
}

}  // namespace
}  // namespace overlimit
