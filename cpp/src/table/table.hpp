// The table of the stores in memory: shards by the hash of a key, and every operation of a store on them.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "overlimit/store.hpp"
#include "table/keyed_hash.hpp"
#include "table/shard.hpp"
#include "table/transaction.hpp"

namespace overlimit::table {

inline constexpr std::size_t kMaxShards = 64;

/// What all shards of a table share. Zeroed memory, in which max_keys and the key of the hash have been set,
/// is an empty table's.
struct TableState {
  Totals totals;
  KeyedHash hash;
  // In a cache line of its own: what is above is read by every call, and hardly ever written.
  alignas(64) std::atomic<Instant> newest_creation;
  std::atomic<std::uint64_t> crowded_calls;
};

/// How a table divides its memory.
struct Division {
  std::size_t shards;
  std::size_t shard_bytes;
  std::size_t most_buckets;

  /// Of this much memory, for so many keys; a shard has at least `least` bytes, `overhead` of which are not
  /// its own.
  static Division of(std::size_t max_keys, std::size_t bytes, std::size_t least, std::size_t overhead = 0);
};

/// A process's view of a table. Thread-safe: a call takes the locks of its shards in ascending order.
// NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): a cache line of its own for turn_
class Table {
 public:
  Table(TableState& state, std::vector<std::unique_ptr<Shard>> shards)
      : state_(state), shards_(std::move(shards)) {}

  // The operations of a Store (store.hpp).
  void decide(std::span<const Call> calls, const Rows& rows, std::span<Instant> times, std::span<Basis> bases,
              MutexWait& wait);
  void decide_one(const Call& call, const Rows& rows, Instant& time, ChargeBits& crowded, MutexWait& wait);
  void refund(const Call& call, std::span<const Receipt> receipts, Present* present, MutexWait& wait);
  void lock(const Call& call, Duration duration, MutexWait& wait);
  void unlock(const Call& call, MutexWait& wait);
  void reset(const PolicyIdentity& policy, std::span<const std::string_view> identifiers, MutexWait& wait);
  void reset_all(const PolicyIdentity& policy, MutexWait& wait);
  /// Removes everything that is stored, in one step.
  void clear(MutexWait& wait);
  /// See Shard::copy_keys; copies none of a shard that there is not.
  std::size_t copy_keys(std::size_t shard, std::size_t below, std::size_t buckets, std::vector<KeptKey>& keys,
                        MutexWait& wait);
  /// Copies one key; nothing if it is not kept.
  std::optional<KeptKey> copy_key(const PolicyIdentity& policy, std::string_view identifier,
                                  MutexWait& wait) {
    return copy_key(state_.hash(policy.digest(), identifier), wait);
  }
  // The same, and what is done to a key that is there and of which the hash alone is known.
  std::optional<KeptKey> copy_key(const KeyHash& key, MutexWait& wait);
  void reset_key(const KeyHash& key, MutexWait& wait);
  void lock_key(const KeyHash& key, Duration duration, MutexWait& wait);
  void unlock_key(const KeyHash& key, MutexWait& wait);
  [[nodiscard]] TableState& state() const { return state_; }
  [[nodiscard]] std::span<const std::unique_ptr<Shard>> shards() const { return shards_; }
  /// The memory that entries have taken, with what was given back.
  [[nodiscard]] std::size_t touched_bytes(MutexWait& wait);
  /// How many shards have been found damaged.
  [[nodiscard]] std::size_t damaged_shards() const;

 private:
  friend class HeldShard;
  friend class HeldShards;

  [[nodiscard]] KeyedCharge keyed(const Charge& charge) const;
  /// Sets, from `first` on, the keys of a call, and returns their shards, one bit each.
  template <class Keyed, class Prefetch>
  std::uint64_t find_keys(const Call& call, Keyed& keyed_charges, std::size_t first,
                          const Prefetch& prefetch) const;
  /// Decides calls, of few charges in all and without a calendar, while their shards are locked: what they
  /// need is loaded from main memory at the same time.
  void decide_together(std::span<const Call> calls, const Rows& rows, std::span<Instant> times,
                       std::span<Basis> bases, MutexWait& wait);
  /// How many sweeps are due, and when they are.
  struct Sweeps {
    std::size_t count = 0;
    Instant at{};
  };
  template <std::size_t kCharges>
  Sweeps decide_each(std::span<const Call> calls, std::span<const KeyedCharge> found, const Rows& rows,
                     std::span<Instant> times, std::span<Basis> bases);
  void decide_several(const Call& call, const Rows& rows, Instant& time, ChargeBits& crowded,
                      MutexWait& wait);
  void decide_dated(const Call& call, const Rows& rows, Instant& time, ChargeBits& crowded, MutexWait& wait);
  template <class Holds>
  Instant decide_charge(const Call& call, const Holds& holds, const Rows& rows, ChargeBits& crowded,
                        MutexWait& wait);
  /// Decides a call while its shards are locked.
  ChargeBits decide(const Call& call, std::span<const KeyedCharge> charges, const Readings& readings,
                    const Rows& rows);
  ChargeBits decide_any(const Call& call, std::span<const KeyedCharge> charges, const Readings& readings,
                        const Rows& rows);

  /// Runs an action while these shards are locked, and finds out which are damaged if it says that one is.
  template <class Action>
  void with_shards(std::uint64_t chosen, MutexWait& wait, const Action& action);
  /// Calls action(call, charges, readings), with the call as it was dated, while its shards are locked, and
  /// returns its instant.
  template <class Action>
  Instant transact(const Call& call, MutexWait& wait, const Action& action);
  /// The same for a call as it is, and only if holds(its instant).
  template <class Holds, class Action>
  Instant transact_once(const Call& call, const Holds& holds, MutexWait& wait, const Action& action);
  /// Calls action(readings) while Held(table, chosen, wait) lives, which locks the shards of these charges.
  template <class Held, class Chosen, class Action>
  Instant under_lock(Chosen& chosen, std::span<const KeyedCharge> charges, const Call& call, MutexWait& wait,
                     const Action& action);
  /// Calls action(transaction) in the same way.
  template <class Action>
  Instant with_transaction(const Call& call, MutexWait& wait, const Action& action);
  template <class Action>
  void with_key(const KeyHash& key, MutexWait& wait, const Action& action);
  [[nodiscard]] std::size_t shard_index(const KeyHash& key) const { return key.low & (shards_.size() - 1); }
  /// All shards, a bit each.
  [[nodiscard]] std::uint64_t all_shards() const {
    return ~std::uint64_t{0} >> (kMaxShards - shards_.size());
  }
  /// Locks a shard, and has it recovered if a process died while it held it.
  void hold_shard(Shard& shard, MutexWait& wait);
  void make_ready(Shard& shard, MutexWait& wait);
  void recover(Shard& shard, MutexWait& wait);
  /// Counts the keys again, after a process died while it counted one.
  void recount(MutexWait& wait);
  [[nodiscard]] unsigned calls_per_sweep() const;
  [[nodiscard]] bool count_call(std::span<const KeyedCharge> charges) const;
  void count_sweep(bool has_erased);
  /// Sweeps a little of the next shard that may hold entries, unless somebody has locked it.
  void sweep_in_turn(Instant real_now);

  TableState& state_;
  std::vector<std::unique_ptr<Shard>> shards_;
  std::atomic<unsigned> idle_sweeps_{0};  // in a row, that found nothing to erase; no more than count
  // Of the shard to be swept next; each process sweeps them all. In a cache line that no other calls read.
  alignas(64) std::atomic<unsigned> turn_{0};
};

}  // namespace overlimit::table
