// Looking at what is kept in shared memory: every key comes once, in small steps, and nothing changes.
#include <gtest/gtest.h>

#include <filesystem>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "../calls.hpp"
#include "../limits.hpp"
#include "own_file.hpp"

namespace overlimit {
namespace {

using namespace testing;

constexpr std::size_t kEnd = std::numeric_limits<std::size_t>::max();

std::vector<KeptKey> all_keys(SharedMemoryStore& store, std::size_t buckets) {
  std::vector<KeptKey> keys;
  for (std::size_t shard = 0; shard < store.shards(); ++shard) {
    for (std::size_t below = kEnd; below > 0;) below = store.copy_keys(shard, below, buckets, keys, {});
  }
  return keys;
}

TEST(KeptKeys, AreFoundOnceEachInStepsOfAnySize) {
  OwnSharedMemoryStore store;
  const CompiledPolicy policy{"p", {fixed_window(100, kHour)}};
  const CompiledPolicy other{"q", {sliding_log(100, kHour)}};
  for (int i = 0; i < 500; ++i) hit(store, policy, {"id:" + std::to_string(i)}, kNow, 1 + i % 7);
  for (int i = 0; i < 30; ++i) hit(store, other, {"id"}, kNow + i);
  EXPECT_GT(store.shards(), 1U);
  for (const std::size_t buckets : {1U, 10U, 100'000U}) {
    const std::vector<KeptKey> keys = all_keys(store, buckets);
    std::set<std::pair<std::uint64_t, std::uint32_t>> hashes;
    std::int64_t charged = 0;
    for (const KeptKey& key : keys) {
      hashes.emplace(key.hash.low, key.hash.high);
      ASSERT_EQ(key.records.size(), 1U);
      EXPECT_FALSE(key.is_overflow);
      if (key.policy == PolicyIdentity("p").digest()) charged += key.records[0].header[2];
    }
    EXPECT_EQ(keys.size(), 501U);
    EXPECT_EQ(hashes.size(), 501U);
    EXPECT_EQ(charged, 1994);
  }
  EXPECT_EQ(store.size(), 501U);
}

TEST(KeptKeys, AreLookedUpByPolicyAndIdentifierWithTheirCells) {
  OwnSharedMemoryStore store;
  const CompiledPolicy policy{"p", {sliding_log(100, kHour)}};
  for (int i = 0; i < 3; ++i) hit(store, policy, {"a"}, kNow + i, 2);
  const std::optional<KeptKey> key = store.copy_key(PolicyIdentity("p"), "a", {});
  ASSERT_TRUE(key);
  EXPECT_EQ(key->records[0].header, (Header{kNow + 2, 2, 6}));
  EXPECT_EQ(key->records[0].cells, (std::vector<Cell>{{kNow, 2}, {kNow + 1, 2}}));
  EXPECT_FALSE(store.copy_key(PolicyIdentity("p"), "b", {}));
  EXPECT_FALSE(store.copy_key(PolicyIdentity("q"), "a", {}));
}

TEST(KeptKeys, AreNoneWithoutAFileAndNoneIsMade) {
  const OwnFile file;
  SharedMemoryStore store(file.options());
  EXPECT_EQ(store.shards(), 0U);
  EXPECT_TRUE(all_keys(store, 10).empty());
  EXPECT_FALSE(store.copy_key(PolicyIdentity("p"), "a", {}));
  EXPECT_FALSE(std::filesystem::exists(file.path()));
}

TEST(KeptKeys, OfAShardThatThereIsNotAreNone) {
  OwnSharedMemoryStore store;
  hit(store, CompiledPolicy{"p", {fixed_window(1, kHour)}}, {"a"}, kNow);
  std::vector<KeptKey> keys;
  EXPECT_EQ(store.copy_keys(store.shards(), kEnd, 10, keys, {}), 0U);
  EXPECT_TRUE(keys.empty());
}

}  // namespace
}  // namespace overlimit
