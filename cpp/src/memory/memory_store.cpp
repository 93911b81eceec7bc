#include "overlimit/memory_store.hpp"

#include <stdexcept>
#include <string>

#include "memory/region.hpp"
#include "table/table.hpp"

namespace overlimit {
namespace {

using table::Division;
using table::LockWait;
using table::Shard;
using table::ShardState;

static_assert(table::kMaxShards * (table::Arena::kGranule << 32) == MemoryStore::kMaxBytes);

std::size_t checked_bytes(std::size_t max_keys, std::size_t max_bytes) {
  if (max_keys == 0) throw std::invalid_argument("max_keys must be at least 1, not 0");
  if (max_bytes < MemoryStore::kMinBytes || max_bytes > MemoryStore::kMaxBytes) {
    throw std::invalid_argument("max_bytes must be from " + std::to_string(MemoryStore::kMinBytes) +
                                " (64 KiB) to " + std::to_string(MemoryStore::kMaxBytes) + " (8 TiB), not " +
                                std::to_string(max_bytes));
  }
  return max_bytes;
}

}  // namespace

/// The table in memory of this process.
struct MemoryStore::Home {
  Home(std::size_t max_keys, std::size_t given_bytes)
      : max_bytes(checked_bytes(max_keys, given_bytes)),
        region(max_bytes),
        division(Division::of(max_keys, max_bytes, kMinBytes)),
        shard_states(std::make_unique<ShardState[]>(division.shards)),
        table(state, shards(max_keys)) {}

  std::vector<std::unique_ptr<Shard>> shards(std::size_t max_keys) {
    state.totals.max_keys = max_keys;
    std::vector<std::unique_ptr<Shard>> made;
    for (unsigned i = 0; i < division.shards; ++i) {
      const std::span memory(region.data() + i * division.shard_bytes, division.shard_bytes);
      made.push_back(std::make_unique<Shard>(Shard::Place{.state = shard_states[i],
                                                          .totals = state.totals,
                                                          .memory = memory,
                                                          .most_buckets = division.most_buckets,
                                                          .ordinal = i}));
      made.back()->format();
    }
    return made;
  }

  std::size_t max_bytes;
  memory::Region region;
  Division division;
  table::TableState state{};
  std::unique_ptr<ShardState[]> shard_states;
  table::Table table;
};

MemoryStore::MemoryStore(std::size_t max_keys, std::size_t max_bytes)
    : home_(std::make_unique<Home>(max_keys, max_bytes)) {}

MemoryStore::~MemoryStore() = default;

void MemoryStore::decide(std::span<const Call> calls, const Rows& rows, std::span<Micros> times,
                         std::span<ChargeBits> crowded, const Interrupted& interrupted) {
  LockWait wait(kNever, interrupted);
  home_->table.decide(calls, rows, times, crowded, wait);
}

void MemoryStore::refund(const Call& call, std::span<const Receipt> receipts,
                         const Interrupted& interrupted) {
  LockWait wait(kNever, interrupted);
  home_->table.refund(call, receipts, wait);
}

void MemoryStore::lock(const Call& call, Micros duration, const Interrupted& interrupted) {
  LockWait wait(kNever, interrupted);
  home_->table.lock(call, duration, wait);
}

void MemoryStore::unlock(const Call& call, const Interrupted& interrupted) {
  LockWait wait(kNever, interrupted);
  home_->table.unlock(call, wait);
}

void MemoryStore::reset_all(const CompiledPolicy& policy, const Interrupted& interrupted) {
  LockWait wait(kNever, interrupted);
  home_->table.reset_all(policy, wait);
}

void MemoryStore::reset(const CompiledPolicy& policy, std::span<const std::string_view> identifiers,
                        const Interrupted& interrupted) {
  LockWait wait(kNever, interrupted);
  home_->table.reset(policy, identifiers, wait);
}

std::size_t MemoryStore::size() const { return home_->state.totals.tracked.load(std::memory_order_relaxed); }

std::size_t MemoryStore::max_keys() const { return home_->state.totals.max_keys; }

std::size_t MemoryStore::max_bytes() const { return home_->max_bytes; }

std::uint64_t MemoryStore::crowded_calls() const {
  return home_->state.crowded_calls.load(std::memory_order_relaxed);
}

}  // namespace overlimit
