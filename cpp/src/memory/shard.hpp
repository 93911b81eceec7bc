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

/// What the shards of a table share: how many keys it tracks, and which shards may hold entries.
struct Census {
  std::size_t max_keys;
  std::atomic<std::size_t> tracked{0};
  std::atomic<std::uint64_t> occupied{0};  ///< a bit per shard

  /// Counts one more key unless the table is full.
  bool admit();
  void leave() { tracked.fetch_sub(1, std::memory_order_relaxed); }
};

/// Everything but `mutex` is guarded by `mutex`.
class Shard {
 public:
  /// `memory` must be zeroed and outlive the shard; the index, of so many buckets at most, lies at its front.
  Shard(std::span<std::byte> memory, std::size_t most_buckets, Census& census, unsigned ordinal = 0);

  ForkSafeMutex mutex;

  [[nodiscard]] const Arena& arena() const { return arena_; }
  Arena& arena() { return arena_; }

  /// The key's entry, or nullptr.
  [[nodiscard]] Entry* find(const KeyHash& key) const { return index_.find(key); }

  /// A new entry for a key of this policy that has none, with empty records for these tags: a cell, unless
  /// the purpose is ordinary. It's findable at once. nullptr when the table has no room for this purpose.
  Entry* insert(const KeyHash& key, std::uint64_t policy, std::span<const Tag> tags, Arena::Purpose purpose);

  /// The entry with a record for each of these tags first, in their order, and after them those of others
  /// that have not expired. The entry may move. Throws std::bad_alloc.
  Entry* conform(Entry* entry, std::span<const Tag> tags, Micros now);

  /// Starts an entry from what another one holds.
  void copy_records(Entry& to, Entry& from);

  void erase(Entry* entry);

  /// Drops all entries of a policy.
  void erase_all(std::uint64_t policy);

  /// Whether the next unknown key would find no room.
  [[nodiscard]] bool is_full() const {
    return starved_ || census_.tracked.load(std::memory_order_relaxed) >= census_.max_keys;
  }

  /// How many buckets a call on a full shard looks at: all of a small one.
  [[nodiscard]] std::size_t buckets_when_full() const {
    return index_.buckets() <= 1024 ? index_.buckets() : 64;
  }

  /// Whether it's time to sweep some shard: at every fourth call that comes by here.
  [[nodiscard]] bool is_sweep_due() { return ++calls_ % kCallsPerSweep == 0; }

  /// Whether any entry here is an overflow cell.
  [[nodiscard]] bool overflows() const { return cells_ > 0; }

  /// Looks at the next few buckets and drops the entries that are over.
  void sweep(Micros real_now, std::size_t buckets);
  /// Looks at as many as the calls since the last one make up for, or at all of a small shard.
  void sweep_in_turn(Micros real_now);

 private:
  static constexpr unsigned kCallsPerSweep = 4;
  static constexpr std::size_t kBucketsPerSweep = 4;
  static constexpr std::size_t kFewBuckets = 12;

  Entry* make_entry(const KeyHash& key, std::uint64_t policy, std::span<const Tag> tags, std::size_t extra,
                    Arena::Purpose purpose);
  void note_occupied();

  // What a sweep needs lies next to the mutex, so that it reads few cache lines of a shard that nobody calls.
  Index index_;
  std::size_t cursor_ = 0;  // buckets below it are still to be looked at
  unsigned calls_ = 0;
  bool is_noted_ = false;
  bool starved_ = false;  // the last unknown key found no bytes
  std::size_t cells_ = 0;
  std::uint64_t bit_;  // its own of Census::occupied
  Census& census_;
  Arena arena_;
};

}  // namespace overlimit::memory
