#include "overlimit/memory_store.hpp"

#include "overlimit/errors.hpp"
#include "platform/virtual_memory.hpp"
#include "table/table.hpp"

namespace overlimit {

using table::Division;
using table::Shard;
using table::ShardState;

namespace {

platform::Pages reserved(std::size_t bytes) {
  try {
    return platform::reserve_pages(bytes);
  } catch (const std::bad_alloc&) {
    throw OutOfMemory("the system has no " + std::to_string(bytes) + " bytes of memory; lower max_bytes");
  }
}

}  // namespace

/// The table in memory of this process.
struct MemoryStore::Impl {
  Impl(std::size_t max_keys, std::size_t given_bytes)
      : max_bytes((check_sizes(max_keys, given_bytes, kMinBytes), given_bytes)),
        pages(reserved(max_bytes)),
        division(Division::of(max_keys, max_bytes, kMinBytes)),
        shard_states(std::make_unique<ShardState[]>(division.shards)),
        table(state, shards(max_keys)) {}

  std::vector<std::unique_ptr<Shard>> shards(std::size_t max_keys) {
    state.totals.max_keys = max_keys;
    std::vector<std::unique_ptr<Shard>> made;
    for (unsigned i = 0; i < division.shards; ++i) {
      const std::span memory(pages.get() + i * division.shard_bytes, division.shard_bytes);
      made.push_back(std::make_unique<Shard>(Shard::Place{.state = shard_states[i],
                                                          .totals = state.totals,
                                                          .memory = memory,
                                                          .most_buckets = division.most_buckets,
                                                          .ordinal = i}));
      made.back()->format();
    }
    return made;
  }

  table::TableState state{};
  std::size_t max_bytes;
  platform::Pages pages;
  Division division;
  std::unique_ptr<ShardState[]> shard_states;
  table::Table table;
};

MemoryStore::MemoryStore(std::size_t max_keys, std::size_t max_bytes)
    : TableStore(Duration{}), impl_(std::make_unique<Impl>(max_keys, max_bytes)) {}

MemoryStore::~MemoryStore() = default;

table::Table& MemoryStore::table() { return impl_->table; }

void MemoryStore::clear() {
  const Interrupted never;
  table::MutexWait wait(timeout(), never);
  impl_->table.with_all(wait, [this] {
    for (const std::unique_ptr<Shard>& shard : impl_->table.shards()) shard->erase_all();
  });
}

std::size_t MemoryStore::size() const { return impl_->state.totals.tracked.load(std::memory_order_relaxed); }

std::size_t MemoryStore::max_keys() const { return impl_->state.totals.max_keys; }

std::size_t MemoryStore::max_bytes() const { return impl_->max_bytes; }

MemoryUsage MemoryStore::usage() {
  const Interrupted never;
  table::MutexWait wait(timeout(), never);
  return {size(), max_keys(), impl_->table.touched_bytes(wait), max_bytes()};
}

std::uint64_t MemoryStore::crowded_calls() const {
  return impl_->state.crowded_calls.load(std::memory_order_relaxed);
}

}  // namespace overlimit
