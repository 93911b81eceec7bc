// The table of the stores in memory: shards by the hash of a key, which are locked in ascending order, put
// right where a process has died, and swept in turn.
#pragma once

#include <atomic>
#include <bit>
#include <memory>
#include <span>
#include <vector>

#include "table/keyed_hash.hpp"
#include "table/shard.hpp"

namespace overlimit::table {

inline constexpr std::size_t kMaxShards = 64;

/// How a table divides its memory among them.
struct Division {
  std::size_t shards;
  std::size_t shard_bytes;
  std::size_t most_buckets;

  /// Of this much memory, for so many keys; a shard has at least `least` bytes, `overhead` of which are not
  /// its own.
  static Division of(std::size_t max_keys, std::size_t bytes, std::size_t least, std::size_t overhead = 0);
};

/// What all shards of a table share. Zeroed memory, in which max_keys and the key of the hash have been set,
/// is an empty table's.
struct TableState {
  Totals totals;
  KeyedHash hash;
  // In a cache line of its own: what is above is read by every call, and hardly ever written.
  alignas(64) std::atomic<Instant> newest_creation;
  std::atomic<std::uint64_t> crowded_calls;
};

inline std::uint64_t bit_of(const Shard& shard) { return std::uint64_t{1} << shard.ordinal(); }

[[noreturn]] void throw_damaged();

/// A process's view of a table. Thread-safe.
// NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): a cache line of its own for turn_
class Table {
 public:
  Table(TableState& state, std::vector<std::unique_ptr<Shard>> shards)
      : state_(state), shards_(std::move(shards)) {}
  [[nodiscard]] TableState& state() const { return state_; }
  [[nodiscard]] std::span<const std::unique_ptr<Shard>> shards() const { return shards_; }
  /// That in which a key lies.
  [[nodiscard]] Shard& shard_of(const KeyHash& key) const { return *shards_[key.low & (shards_.size() - 1)]; }

  /// Runs an action while a shard is locked, or these, a bit each, and finds out which are damaged if it says
  /// that one is.
  template <class Action>
  [[gnu::always_inline]] void with(Shard& shard, MutexWait& wait, const Action& action) {
    while_held<HeldShard>(shard, wait, action);
  }
  template <class Action>
  [[gnu::always_inline]] void with(std::uint64_t chosen, MutexWait& wait, const Action& action) {
    while_held<HeldShards>(chosen, wait, action);
  }
  template <class Action>
  void with_all(MutexWait& wait, const Action& action) {
    with(~std::uint64_t{0} >> (kMaxShards - shards_.size()), wait, action);
  }

  /// The memory that entries have taken, with what was given back.
  [[nodiscard]] std::size_t touched_bytes(MutexWait& wait);
  [[nodiscard]] std::size_t damaged_shards() const;

  /// Counts the keys again if a process died while it counted one.
  void recount_if_due(MutexWait& wait) {
    if (state_.totals.recount.load(std::memory_order_relaxed) != 0) [[unlikely]]
      recount(wait);
  }
  /// Counts a call on a shard that is locked. True if it is time to sweep.
  [[nodiscard]] bool count_call(Shard& shard) const { return shard.count_call(calls_per_sweep()); }
  /// Sweeps a little of the next shard that may hold entries, unless somebody has locked it.
  void sweep_in_turn(Instant real_now);

 private:
  /// Locks one shard.
  class HeldShard : NonCopyable {
   public:
    HeldShard(Table& table, Shard& shard, MutexWait& wait) : shard_(shard) { table.hold(shard, wait); }
    ~HeldShard() {
      shard_.end_call();
      shard_.mutex.unlock();
    }
    /// To be called when the shards turned out to be damaged: finds out which of them are.
    void find_damage() const { shard_.abandon(); }

   private:
    Shard& shard_;
  };

  /// Locks a set of shards, one bit each, in ascending order, which is the same for every call.
  class HeldShards : NonCopyable {
   public:
    HeldShards(Table& table, std::uint64_t chosen, MutexWait& wait) : table_(table) {
      try {
        for (; locked_ != chosen; locked_ |= next(chosen & ~locked_)) {
          table.hold(table.first_of(chosen & ~locked_), wait);
        }
      } catch (...) {
        unlock();
        throw;
      }
    }
    ~HeldShards() { unlock(); }
    void find_damage() const {
      for (std::uint64_t left = locked_; left != 0; left &= left - 1) table_.first_of(left).abandon();
    }

   private:
    static std::uint64_t next(std::uint64_t shards) { return shards & (~shards + 1); }
    void unlock() {
      for (; locked_ != 0; locked_ &= locked_ - 1) {
        table_.first_of(locked_).end_call();
        table_.first_of(locked_).mutex.unlock();
      }
    }

    Table& table_;
    std::uint64_t locked_ = 0;
  };

  template <class Held, class Chosen, class Action>
  [[gnu::always_inline]] void while_held(Chosen& chosen, MutexWait& wait, const Action& action) {
    const Held held(*this, chosen, wait);
    try {
      action();
    } catch (const Damaged&) {
      held.find_damage();
      throw_damaged();
    }
  }

  /// The first of a set that is not empty.
  [[nodiscard]] Shard& first_of(std::uint64_t shards) const {
    return *shards_[std::size_t(std::countr_zero(shards))];
  }
  /// Locks a shard, and has it recovered if a process died while it held it.
  void hold(Shard& shard, MutexWait& wait) {
    shard.mutex.lock(wait);
    if (shard.log().is_kept() && !shard.is_ready()) [[unlikely]]
      make_ready(shard, wait);
  }
  [[gnu::noinline]] void make_ready(Shard& shard, MutexWait& wait);
  void recover(Shard& shard, MutexWait& wait);
  [[gnu::noinline]] void recount(MutexWait& wait);

  // A sweep takes the lock of a shard from those who use it, so where there is little to do it is rarer and
  // does more at once: a bucket for each call.
  [[nodiscard]] unsigned calls_per_sweep() const {
    return idle_sweeps_.load(std::memory_order_relaxed) < kMaxShards ? 4 : 16;
  }
  void count_sweep(bool has_erased);

  TableState& state_;
  std::vector<std::unique_ptr<Shard>> shards_;
  std::atomic<unsigned> idle_sweeps_{0};  // in a row, that found nothing to erase; no more than count
  // Of the shard to be swept next; each process sweeps them all. In a cache line that no other calls read.
  alignas(64) std::atomic<unsigned> turn_{0};
};

}  // namespace overlimit::table
