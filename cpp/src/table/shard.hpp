// A part of the table: an index of entries, the arena they lie in, and the lock over both.
#pragma once

#include <atomic>
#include <span>
#include <vector>

#include "overlimit/kept_key.hpp"
#include "platform/processor.hpp"
#include "table/arena.hpp"
#include "table/entry.hpp"
#include "table/index.hpp"
#include "table/shard_mutex.hpp"
#include "table/undo_log.hpp"

namespace overlimit::table {

/// Copies what is kept under a key.
KeptKey kept_key(const Arena& arena, Entry& entry);

/// What the shards of a table share.
struct Totals {
  std::uint64_t max_keys = 0;
  std::atomic<std::uint64_t> tracked{0};   ///< keys; too many or too few while `recount` is set
  std::atomic<std::uint64_t> occupied{0};  ///< the shards that may hold entries, a bit each
  std::atomic<std::uint32_t> recount{0};   ///< a process died while it counted a key

  /// Counts one more key unless the table is full.
  bool try_add();
  void remove() { tracked.fetch_sub(1, std::memory_order_relaxed); }
};

/// What a shard knows, apart from the index and the arena themselves. Zeroed memory is made one by
/// Shard::format. Everything but the lock's word is guarded by the lock. Every call writes what lies in the
/// last cache line, and what it reads besides lies in the first one, which all processors can keep.
struct alignas(64) ShardState {
  Index::State index;
  std::uint64_t tracked;  ///< keys of their own
  std::uint64_t overflow_entries;
  std::uint32_t is_counting;              ///< Totals::tracked and `tracked` may differ by one
  std::uint32_t is_marked;                ///< in Totals::occupied
  std::uint32_t is_out_of_bytes;          ///< the last new key found no room in the arena
  std::atomic<std::uint32_t> is_damaged;  ///< also read without the lock
  Arena::State arena;                     ///< whose first word every call reads
  alignas(64) std::atomic<std::uint32_t> mutex_word;
  UndoLog::State log;
  std::uint64_t cursor;                    ///< buckets below it are still to be swept
  std::array<std::byte, 24> start_of_log;  ///< which goes on behind the state
};
static_assert(offsetof(ShardState, arena) + sizeof(Arena::State::is_changing) <= 64);
static_assert(offsetof(ShardState, start_of_log) + sizeof(ShardState::start_of_log) == sizeof(ShardState));

/// A process's view of a shard, in cache lines of its own, as the mutex is in one. What it changes is
/// complete when the method returns, or, of what is written into entries, when the call's WriteScope says so.
class alignas(64) Shard {
 public:
  /// Where a shard lies. `log` is empty for memory that dies with its process.
  struct Place {
    ShardState& state;
    Totals& totals;
    std::span<std::byte> memory;  ///< the index, of at most `most_buckets`, and behind it the arena
    std::size_t most_buckets;
    std::span<std::byte> log{};
    std::span<std::byte> logged{};  ///< all memory that the log protects
    unsigned ordinal = 0;
  };

  /// In memory of this process, or with `holders` in memory that other processes share.
  explicit Shard(const Place& place, const Holders* holders = nullptr);
  /// Makes an empty shard of zeroed memory.
  void format();

  ShardMutex mutex;

  [[nodiscard]] const Arena& arena() const { return arena_; }
  Arena& arena() { return arena_; }
  UndoLog& log() { return log_; }
  [[nodiscard]] ShardState& state() const { return state_; }
  [[nodiscard]] unsigned ordinal() const { return ordinal_; }

  [[nodiscard]] Entry* find(const KeyHash& key) const {
    Entry* const entry = index_.find(key);
    if (entry != nullptr) check_seal(arena_, log_, *entry);
    return entry;
  }

  /// What `find` reads to find it.
  [[nodiscard]] std::vector<const void*> path_to(const KeyHash& key) const { return index_.path_to(key); }

  /// Loads what every call needs, which others may have written last, before the lock is taken.
  void prefetch() const {
    mutex.prefetch();
    log_.prefetch();
    __builtin_prefetch(&state_);
  }
  /// The same for what `find` reads for a key: first where it is looked up, then its entry.
  void prefetch_bucket(const KeyHash& key) const { index_.prefetch_bucket(key); }
  void prefetch_entry(const KeyHash& key) const { index_.prefetch_entry(key); }

  /// A new entry for a key that has none, with empty records: an overflow entry unless the purpose is
  /// ordinary. nullptr when the table has no room for this purpose.
  Entry* insert(const KeyHash& key, std::uint64_t policy, std::span<const Tag> tags, Arena::Purpose purpose);

  /// Rebuilds an entry so that it starts with the records of these tags, in their order; other records that
  /// have not expired follow. The entry may move. Throws OutOfMemory.
  Entry* with_records(Entry* entry, std::span<const Tag> tags, Instant now);
  /// Starts an entry from what another one holds.
  void copy_records(Entry& to, Entry& from);
  void erase(Entry* entry);
  /// Erases the entry of a key if it has one.
  void erase_key(const KeyHash& key) {
    if (Entry* const entry = find(key)) erase(entry);
  }
  void erase_policy(std::uint64_t policy);
  void erase_all();

  /// To be called before an entry's first `records` records are written, or its lock's, and before what it
  /// says of itself is.
  void save(Entry& entry, std::size_t records) {
    if (records == 1) return log_.save_bytes<Entry::changing_size(1)>(entry.changing());
    log_.save(entry.changing(), Entry::changing_size(records));
  }
  void save(const Record& record) { log_.save(&record, sizeof record); }
  /// To be called after an entry was written.
  void written(Entry& entry) { set_seal(log_, entry); }

  /// Whether the next unknown key would find no room.
  [[nodiscard]] bool is_full() const {
    return state_.is_out_of_bytes != 0 || totals_.tracked.load(std::memory_order_relaxed) >= totals_.max_keys;
  }

  /// How many buckets a call on a full shard sweeps: all of a small one.
  [[nodiscard]] std::size_t buckets_when_full() const {
    return index_.buckets() <= 1024 ? index_.buckets() : 64;
  }

  /// Counts a call. True for one in so many, a power of two.
  [[nodiscard]] bool count_call(unsigned one_in) { return (++calls_ & (one_in - 1)) == 0; }
  [[nodiscard]] bool has_overflow_entries() const { return state_.overflow_entries > 0; }
  /// Erases the expired entries in the next few buckets. False if there were none.
  bool sweep(Instant real_now, std::size_t buckets);
  /// The same, or for all buckets of a small shard; and makes the rest as it is best for calls to come.
  bool sweep_in_turn(Instant real_now, std::size_t buckets);
  /// Puts everything back that the call has saved.
  [[gnu::noinline]] void abandon() noexcept;
  /// To be called before the lock is released.
  void end_call() noexcept {
    if (state_.arena.is_changing != 0) end_changes();
  }

  /// Whether a process died while it changed the shard, or the shard is known to be damaged.
  [[nodiscard]] bool needs_recovery() const {
    return (state_.log.size | state_.log.others | state_.log.leader | state_.arena.is_changing |
            state_.is_counting | state_.is_damaged.load(std::memory_order_relaxed)) != 0;
  }
  /// Undoes what a process left half done, unless its call is complete, and makes the rest consistent. May be
  /// interrupted and done again. Throws Damaged.
  void recover(bool is_complete);
  /// Finds out from the entries what of the arena is free. Throws Damaged if anything contradicts itself.
  void rebuild();
  /// Throws Damaged for what would lead a call astray before it has looked at any entry.
  void check() const { index_.check(); }
  /// Copies the keys in so many buckets below this one, the last first, or fewer once there are many cells.
  /// Returns the bucket below which to go on; 0: there is none. What is added meanwhile may be missed.
  std::size_t copy_keys(std::size_t below, std::size_t buckets, std::vector<KeptKey>& keys);
  /// Whether a call can begin: nothing is to be recovered, and nothing known to be damaged.
  [[nodiscard]] bool is_ready() const { return !needs_recovery() && index_.is_sound(); }

 private:
  static constexpr std::size_t kFewBuckets = 12;

  Entry* make_entry(const KeyHash& key, std::uint64_t policy, std::span<const Tag> tags, std::size_t extra,
                    Arena::Purpose purpose);
  template <class Predicate>
  void erase_if(const Predicate& is_erased);
  /// Whether erasing it changes no answer.
  [[nodiscard]] bool is_expired(Entry& entry, Instant real_now) const;
  [[gnu::noinline]] void end_changes() noexcept;
  bool begin_counting();
  void end_counting();
  void add_to_index(Entry& entry);
  void take_from_index(Entry& entry);
  void mark_occupied();
  [[nodiscard]] std::vector<Arena::Block> blocks_in_use();

  // What every call reads lies in two cache lines, of which it writes the first: the mutex and these, the
  // index and the start of the arena.
  std::uint32_t calls_ = 0;  // of this process
  ShardState& state_;
  Totals& totals_;
  Index index_;
  Arena arena_;
  UndoLog log_;
  std::uint64_t bit_;  // in Totals::occupied
  unsigned ordinal_;
};

}  // namespace overlimit::table
