// A part of the table: an open-addressing index of entries, the arena they lie in, and the lock over both.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>

#include "memory/arena.hpp"
#include "memory/entry.hpp"
#include "overlimit/forks.hpp"

namespace overlimit::memory {

/// Keys tracked by the whole table, shared by its shards.
struct Census {
  std::size_t max_keys;
  std::atomic<std::size_t> tracked{0};

  /// Counts one more key unless the table is full.
  bool admit();
  void leave() { tracked.fetch_sub(1, std::memory_order_relaxed); }
};

/// Everything but `mutex` is guarded by `mutex`.
class Shard {
 public:
  /// `memory` must be zeroed and outlive the shard; `places` of the index, a power of two, lie at its front.
  Shard(std::span<std::byte> memory, std::size_t places, Census& census);

  ForkSafeMutex mutex;

  [[nodiscard]] const Arena& arena() const { return arena_; }
  Arena& arena() { return arena_; }

  /// The key's entry, or nullptr.
  Entry* find(const KeyHash& key);

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
    return starved_ || used_ >= most_used(Arena::Purpose::ordinary) ||
           census_.tracked.load(std::memory_order_relaxed) >= census_.max_keys;
  }

  /// How many places a call on a full shard looks at: all of a small one.
  [[nodiscard]] std::size_t places_when_full() const { return mask_ < 1024 ? mask_ + 1 : 64; }

  /// Whether any entry here is an overflow cell.
  [[nodiscard]] bool overflows() const { return cells_ > 0; }

  /// Looks at a few places and drops the entries that are over.
  void sweep(Micros real_now, std::size_t places);

 private:
  struct Place {
    std::uint32_t fingerprint;
    Offset entry;  // 0: empty
  };

  [[nodiscard]] std::size_t home(const KeyHash& key) const { return key.low >> 8 & mask_; }
  [[nodiscard]] static std::uint32_t fingerprint(const KeyHash& key) {
    return static_cast<std::uint32_t>(key.high);
  }
  [[nodiscard]] std::size_t place_of(const KeyHash& key) const;
  Entry* make_entry(const KeyHash& key, std::uint64_t policy, std::span<const Tag> tags, std::size_t extra,
                    Arena::Purpose purpose);
  void free_entry(Offset offset, Entry& entry);
  void vacate(std::size_t place);
  /// Of the places in the index; the last quarter is for cells, its last quarter for common ones.
  [[nodiscard]] std::size_t most_used(Arena::Purpose purpose) const {
    if (purpose == Arena::Purpose::ordinary) return mask_ - mask_ / 4;
    return purpose == Arena::Purpose::policy_cell ? mask_ - mask_ / 16 : mask_;
  }

  Census& census_;
  Place* places_;
  std::size_t mask_;
  Arena arena_;
  std::size_t used_ = 0;
  std::size_t cells_ = 0;
  std::size_t cursor_ = 0;
  bool starved_ = false;  // the last unknown key found no bytes
};

}  // namespace overlimit::memory
