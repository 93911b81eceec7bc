// A part of the table: an index of entries, the arena they lie in, and the lock over both.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>

#include "memory/arena.hpp"
#include "memory/entry.hpp"
#include "memory/index.hpp"
#include "overlimit/forks.hpp"

namespace overlimit::memory {

/// The counts that the shards of a table share: how many keys it tracks, and which shards may hold entries.
struct KeyCount {
  std::size_t max_keys;
  std::atomic<std::size_t> tracked{0};
  std::atomic<std::uint64_t> occupied{0};  ///< a bit per shard

  /// Counts one more key unless the table is full.
  bool try_add();
  void remove() { tracked.fetch_sub(1, std::memory_order_relaxed); }
};

/// Everything but `mutex` is guarded by `mutex`.
class Shard {
 public:
  /// `memory` must be zeroed and outlive the shard; the index, of at most `most_buckets`, lies at its front.
  Shard(std::span<std::byte> memory, std::size_t most_buckets, KeyCount& key_count, unsigned ordinal = 0);

  ForkSafeMutex mutex;

  [[nodiscard]] const Arena& arena() const { return arena_; }
  Arena& arena() { return arena_; }

  /// The key's entry, or nullptr.
  [[nodiscard]] Entry* find(const KeyHash& key) const { return index_.find(key); }

  /// Asks the processor to load what `find` reads for a key: first where it is looked up, then its entry.
  void prefetch_bucket(const KeyHash& key) const { index_.prefetch_bucket(key); }
  void prefetch_entry(const KeyHash& key) const { index_.prefetch_entry(key); }

  /// A new entry for a key of this policy that has none, with empty records for these tags: an overflow
  /// entry, unless the purpose is ordinary. It's findable at once. nullptr when the table has no room for
  /// this purpose.
  Entry* insert(const KeyHash& key, std::uint64_t policy, std::span<const Tag> tags, Arena::Purpose purpose);

  /// Rebuilds an entry so that it starts with the records of these tags, in their order; other records that
  /// have not expired follow. The entry may move. Throws std::bad_alloc.
  Entry* with_records(Entry* entry, std::span<const Tag> tags, Micros now);

  /// Starts an entry from what another one holds.
  void copy_records(Entry& to, Entry& from);

  void erase(Entry* entry);

  /// Erases all entries of a policy.
  void erase_policy(std::uint64_t policy);

  /// Whether the next unknown key would find no room.
  [[nodiscard]] bool is_full() const {
    return is_out_of_bytes_ || key_count_.tracked.load(std::memory_order_relaxed) >= key_count_.max_keys;
  }

  /// How many buckets a call on a full shard sweeps: all of a small one.
  [[nodiscard]] std::size_t buckets_when_full() const {
    return index_.buckets() <= 1024 ? index_.buckets() : 64;
  }

  /// Whether it is time to sweep some shard: at every fourth call on this one.
  [[nodiscard]] bool is_sweep_due() { return ++calls_ % kCallsPerSweep == 0; }

  /// Whether any entry here is an overflow entry.
  [[nodiscard]] bool has_overflow_entries() const { return overflow_entries_ > 0; }

  /// Erases the expired entries in the next few buckets.
  void sweep(Micros real_now, std::size_t buckets);
  /// Sweeps as many buckets as are due after the calls since the last sweep, or all of a small shard.
  void sweep_in_turn(Micros real_now);

 private:
  static constexpr unsigned kCallsPerSweep = 4;
  static constexpr std::size_t kBucketsPerSweep = 4;
  static constexpr std::size_t kFewBuckets = 12;

  Entry* make_entry(const KeyHash& key, std::uint64_t policy, std::span<const Tag> tags, std::size_t extra,
                    Arena::Purpose purpose);
  void mark_occupied();

  // The fields that a sweep needs lie next to the mutex, so that it reads few cache lines of an idle shard.
  Index index_;
  std::size_t cursor_ = 0;  // buckets below it are still to be swept
  unsigned calls_ = 0;
  bool is_marked_ = false;
  bool is_out_of_bytes_ = false;  // the last new key found no room in the arena
  std::size_t overflow_entries_ = 0;
  std::uint64_t bit_;  // of this shard in KeyCount::occupied
  KeyCount& key_count_;
  Arena arena_;
};

}  // namespace overlimit::memory
