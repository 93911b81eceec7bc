#include "overlimit/memory_store.hpp"

#include <algorithm>
#include <bit>
#include <mutex>
#include <stdexcept>
#include <vector>

#include "memory/region.hpp"
#include "memory/transaction.hpp"
#include "overlimit/call.hpp"
#include "overlimit/uninitialised_array.hpp"

namespace overlimit {
namespace {

using memory::Readings;
using memory::Shard;
using memory::Target;

constexpr std::size_t kMaxShards = 64;
constexpr std::size_t kKeysPerShard = 1024;
// Charges of several calls whose shards are locked, and whose entries are loaded, at the same time.
constexpr std::size_t kTogether = 128;
// The most that offsets can address.
constexpr std::size_t kMaxShardBytes = memory::Arena::kGranule << 32;
static_assert(kMaxShards * kMaxShardBytes == MemoryStore::kMaxBytes);

std::size_t shards_for(std::size_t max_keys, std::size_t max_bytes) {
  const std::size_t wanted = std::min(max_keys / kKeysPerShard, max_bytes / MemoryStore::kMinBytes);
  const std::size_t needed = std::bit_ceil((max_bytes + kMaxShardBytes - 1) / kMaxShardBytes);
  return std::max(needed, std::bit_floor(std::clamp<std::size_t>(wanted, 1, kMaxShards)));
}

// Two for each entry, even if all are of the smallest size; unused pages are never touched.
std::size_t most_buckets(std::size_t shard_bytes) {
  constexpr std::size_t kSmallestEntry = 128;
  static_assert(memory::Entry::size_for(1) <= kSmallestEntry &&
                memory::Entry::size_for(1) > kSmallestEntry - memory::Arena::kGranule);
  return std::bit_floor(shard_bytes) / kSmallestEntry * 2;
}

std::size_t checked_bytes(std::size_t max_keys, std::size_t max_bytes) {
  if (max_keys == 0) throw std::invalid_argument("max_keys must be at least 1, not 0");
  if (max_bytes < MemoryStore::kMinBytes || max_bytes > MemoryStore::kMaxBytes) {
    throw std::invalid_argument("max_bytes must be from " + std::to_string(MemoryStore::kMinBytes) +
                                " (64 KiB) to " + std::to_string(MemoryStore::kMaxBytes) + " (8 TiB), got " +
                                std::to_string(max_bytes));
  }
  return max_bytes;
}

/// How many of these calls, from the first on, are decided together.
std::size_t count_together(std::span<const Call> calls) {
  const auto has_calendar = [](const Charge& charge) { return charge.policy->has_calendar(); };
  std::size_t charges = 0;
  std::size_t count = 0;
  for (const Call& call : calls) {
    charges += call.charges.size();
    if (charges > kTogether || std::ranges::any_of(call.charges, has_calendar)) break;
    ++count;
  }
  return std::max<std::size_t>(1, count);
}

Readings readings_of(const Call& call) {
  if (!call.now) {
    const Micros now = system_now();
    return {now, now, false};
  }
  const Micros now = checked_instant(*call.now);
  return {now, call.system_clock ? now : system_now(), !call.system_clock};
}

}  // namespace

struct MemoryStore::Table {
  Table(std::size_t max_keys, std::size_t given_bytes)
      : max_bytes(checked_bytes(max_keys, given_bytes)), region(max_bytes), key_count{max_keys} {
    const std::size_t count = shards_for(max_keys, max_bytes);
    const std::size_t share = max_bytes / count / 64 * 64;
    for (std::size_t i = 0; i < count; ++i) {
      shards.push_back(std::make_unique<Shard>(std::span(region.data() + i * share, share),
                                               most_buckets(share), key_count, unsigned(i)));
    }
  }

  [[nodiscard]] std::size_t shard_index(const memory::KeyHash& key) const {
    return key.low & (shards.size() - 1);
  }

  struct Found {
    std::uint64_t shards = 0;  ///< one bit each
    std::size_t pairs = 0;
  };
  /// Sets, from `first` on, the targets of a call.
  template <class Targets>
  Found find_targets(const Call& call, Targets& targets, std::size_t first);

  ChargeBits decide(memory::Transaction& transaction, const Rows& rows);

  /// Decides calls, of kTogether charges in all and without a calendar, while their shards are locked: what
  /// they need is loaded from main memory at the same time.
  void decide_together(std::span<const Call> calls, const Rows& rows, std::span<Micros> times,
                       std::span<ChargeBits> crowded);

  /// Calls action(transaction) with the shards of these charges locked.
  template <class Action>
  void transact(const Call& asked, const Readings& readings, const Action& action);

  /// Sweeps a little of the next shard that may hold entries, unless another thread has locked it.
  void sweep_in_turn(Micros real_now);

  std::size_t max_bytes;
  memory::Region region;
  memory::KeyCount key_count;
  memory::KeyedHash hash;
  std::vector<std::unique_ptr<Shard>> shards;
  std::atomic<Micros> newest_creation{0};
  std::atomic<unsigned> turn{0};  // of the shard to be swept next
  std::atomic<std::uint64_t> crowded_calls{0};
};

// Two threads may choose the same shard.
void MemoryStore::Table::sweep_in_turn(Micros real_now) {
  const std::uint64_t occupied = key_count.occupied.load(std::memory_order_relaxed);
  if (occupied == 0) return;
  const unsigned from = turn.load(std::memory_order_relaxed);
  const unsigned next = (from + unsigned(std::countr_zero(std::rotr(occupied, int(from))))) % kMaxShards;
  turn.store((next + 1) % kMaxShards, std::memory_order_relaxed);
  Shard& shard = *shards[next];
  const std::unique_lock lock(shard.mutex, std::try_to_lock);
  if (lock.owns_lock()) shard.sweep_in_turn(real_now);
}

namespace {

/// Locks a set of shards, one bit each, in ascending order, which is the same for every call.
class ShardLocks {
 public:
  ShardLocks(std::span<const std::unique_ptr<Shard>> shards, std::uint64_t chosen)
      : shards_(shards), chosen_(chosen) {
    for_each([](Shard& shard) { shard.mutex.lock(); });
  }
  ~ShardLocks() {
    for_each([](Shard& shard) { shard.mutex.unlock(); });
  }
  ShardLocks(const ShardLocks&) = delete;
  ShardLocks& operator=(const ShardLocks&) = delete;

 private:
  template <class Action>
  void for_each(const Action& action) const {
    for (std::uint64_t left = chosen_; left != 0; left &= left - 1) {
      action(*shards_[std::size_t(std::countr_zero(left))]);
    }
  }

  std::span<const std::unique_ptr<Shard>> shards_;
  std::uint64_t chosen_;
};

/// Has what targets need loaded while those before them are decided.
class Prefetching {
 public:
  explicit Prefetching(std::span<const Target> targets) : targets_(targets) {}
  /// To be called before the targets up to `decided` are.
  void advance(std::size_t decided) {
    for (; bucket_ < std::min(targets_.size(), decided + 2 * kAhead); ++bucket_) {
      targets_[bucket_].shard->prefetch_bucket(targets_[bucket_].key);
    }
    for (; entry_ < std::min(targets_.size(), decided + kAhead); ++entry_) {
      targets_[entry_].shard->prefetch_entry(targets_[entry_].key);
    }
  }

 private:
  static constexpr std::size_t kAhead = 8;

  std::span<const Target> targets_;
  std::size_t bucket_ = 0;
  std::size_t entry_ = 0;
};

}  // namespace

template <class Targets>
MemoryStore::Table::Found MemoryStore::Table::find_targets(const Call& call, Targets& targets,
                                                           std::size_t first) {
  Found found;
  for (std::size_t i = 0; i < call.charges.size(); ++i) {
    const Charge& charge = call.charges[i];
    const memory::KeyHash key = hash(charge.policy->digest(), charge.identifier);
    const std::size_t shard = shard_index(key);
    targets.emplace(first + i, &charge, key, shards[shard].get(), found.pairs);
    found.shards |= std::uint64_t{1} << shard;
    found.pairs += charge.policy->size();
  }
  return found;
}

template <class Action>
void MemoryStore::Table::transact(const Call& asked, const Readings& readings, const Action& action) {
  const DatedCall dated(asked, readings.now);
  const Call& call = *dated;
  UninitialisedArray<Target, kMaxCharges> targets;
  if (call.charges.size() > kMaxCharges) {
    throw std::invalid_argument("a call has at most 64 charges, got " + std::to_string(call.charges.size()));
  }
  const Found found = find_targets(call, targets, 0);
  bool is_sweep_due = false;
  {
    const ShardLocks locks(shards, found.shards);
    const std::span own(targets.data(), call.charges.size());
    memory::Transaction transaction(call, own, found.pairs, readings);
    action(transaction);
    is_sweep_due = call.charges.size() > 0 && targets[0].shard->is_sweep_due();
  }
  if (is_sweep_due) sweep_in_turn(readings.real_now);
}

ChargeBits MemoryStore::Table::decide(memory::Transaction& transaction, const Rows& rows) {
  const ChargeBits crowded = transaction.decide(rows, newest_creation);
  if (crowded != 0) crowded_calls.fetch_add(1, std::memory_order_relaxed);
  return crowded;
}

void MemoryStore::Table::decide_together(std::span<const Call> calls, const Rows& rows,
                                         std::span<Micros> times, std::span<ChargeBits> crowded) {
  UninitialisedArray<Target, kTogether> targets;
  std::uint64_t chosen = 0;
  std::size_t count = 0;
  for (const Call& call : calls) {
    chosen |= find_targets(call, targets, count).shards;
    count += call.charges.size();
  }
  const std::span found(targets.data(), count);
  std::size_t sweeps_due = 0;
  Micros real_now = 0;
  {
    const ShardLocks locks(shards, chosen);
    std::size_t first = 0;
    Prefetching prefetching(found);
    std::size_t first_row = 0;
    for (std::size_t i = 0; i < calls.size(); ++i) {
      const std::span own = found.subspan(first, calls[i].charges.size());
      const std::size_t pairs = pairs_of(calls[i].charges);
      const Readings readings = readings_of(calls[i]);
      prefetching.advance(first + own.size());
      memory::Transaction transaction(calls[i], own, pairs, readings);
      crowded[i] = decide(transaction, rows_of(rows, first_row, pairs));
      times[i] = readings.now;
      real_now = readings.real_now;
      sweeps_due += own[0].shard->is_sweep_due() ? 1 : 0;
      first += own.size();
      first_row += pairs;
    }
  }
  for (; sweeps_due > 0; --sweeps_due) sweep_in_turn(real_now);
}

MemoryStore::MemoryStore(std::size_t max_keys, std::size_t max_bytes)
    : table_(std::make_unique<Table>(max_keys, max_bytes)) {}

MemoryStore::~MemoryStore() = default;

void MemoryStore::decide(std::span<const Call> calls, const Rows& rows, std::span<Micros> times,
                         std::span<ChargeBits> crowded, const Interrupted&) {
  const auto decide_alone = [&](std::size_t i, const Rows& own) {
    const Readings readings = readings_of(calls[i]);
    table_->transact(calls[i], readings, [&](memory::Transaction& transaction) {
      crowded[i] = table_->decide(transaction, own);
    });
    times[i] = readings.now;
  };
  if (calls.size() == 1) return decide_alone(0, rows);
  std::size_t first = 0;
  for (std::size_t i = 0; i < calls.size();) {
    const std::size_t count = count_together(calls.subspan(i));
    std::size_t pairs = 0;
    for (const Call& call : calls.subspan(i, count)) pairs += pairs_of(call.charges);
    const Rows own = rows_of(rows, first, pairs);
    if (count > 1) {
      table_->decide_together(calls.subspan(i, count), own, times.subspan(i), crowded.subspan(i));
    } else {
      decide_alone(i, own);
    }
    first += pairs;
    i += count;
  }
}

void MemoryStore::refund(const Call& call, std::span<const Receipt> receipts, const Interrupted&) {
  table_->transact(call, readings_of(call),
                   [&](memory::Transaction& transaction) { transaction.refund(receipts); });
}

void MemoryStore::lock(const Call& call, Micros duration, const Interrupted&) {
  table_->transact(call, readings_of(call), [&](memory::Transaction& transaction) {
    transaction.lock(duration, table_->newest_creation);
  });
}

void MemoryStore::unlock(const Call& call, const Interrupted&) {
  table_->transact(call, readings_of(call),
                   [&](memory::Transaction& transaction) { transaction.unlock(table_->newest_creation); });
}

void MemoryStore::reset_all(const CompiledPolicy& policy, const Interrupted&) {
  for (const std::unique_ptr<Shard>& shard : table_->shards) {
    const std::lock_guard lock(shard->mutex);
    shard->erase_policy(policy.digest());
  }
}

void MemoryStore::reset(const CompiledPolicy& policy, std::span<const std::string_view> identifiers,
                        const Interrupted&) {
  for (const std::string_view identifier : identifiers) {
    const memory::KeyHash key = table_->hash(policy.digest(), identifier);
    Shard& shard = *table_->shards[table_->shard_index(key)];
    const std::lock_guard lock(shard.mutex);
    if (memory::Entry* entry = shard.find(key)) shard.erase(entry);
  }
}

std::size_t MemoryStore::size() const { return table_->key_count.tracked.load(std::memory_order_relaxed); }

std::size_t MemoryStore::max_keys() const { return table_->key_count.max_keys; }

std::size_t MemoryStore::max_bytes() const { return table_->max_bytes; }

std::uint64_t MemoryStore::crowded_calls() const {
  return table_->crowded_calls.load(std::memory_order_relaxed);
}

}  // namespace overlimit
