// Parts of a table in memory of this process, formatted and ready.
#pragma once

#include <cstddef>

#include "platform/virtual_memory.hpp"
#include "table/shard.hpp"

namespace overlimit::testing {

/// An arena without a log.
struct OwnArena {
  explicit OwnArena(std::byte* base, std::size_t size) : arena(state, base, size) { arena.clear(); }

  table::Arena::State state{};
  table::Arena arena;
};

/// A shard without a log.
struct OwnShard {
  OwnShard(std::span<std::byte> memory, std::size_t most_buckets, table::Totals& totals)
      : shard({.state = state, .totals = totals, .memory = memory, .most_buckets = most_buckets}) {
    shard.format();
  }

  table::ShardState state{};
  table::Shard shard;
};

}  // namespace overlimit::testing
