#include "shared_memory/layout.hpp"

#include <unistd.h>

namespace overlimit::shared_memory {
namespace {

constexpr std::size_t kLeastShardBytes = std::size_t{1} << 20;
constexpr std::size_t kCacheLine = 64;

constexpr std::size_t rounded_up(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

// The last line of a state and the one behind it are a pair, which processors load together.
constexpr std::size_t kShardsAt = rounded_up(sizeof(TableHead), 2 * kCacheLine);
static_assert(sizeof(table::ShardState) % (2 * kCacheLine) == kCacheLine);

// Of a shard, before its memory: its state, and what the log has room for behind that.
constexpr std::size_t kShardHead = sizeof(table::ShardState) + table::UndoLog::kRoom;

std::size_t whole_pages(std::size_t bytes) {
  return rounded_up(bytes, static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)));
}

/// Of one that has another number in each of its parts, some of which are bits of a word.
std::uint64_t hash_of_entry() {
  table::Entry entry({.low = 1, .high = 2}, 3, 4);
  entry.set_created_at(Instant(5));
  entry.keep_until(Instant(6));
  entry.next() = 7;
  return hash_of({reinterpret_cast<const char*>(&entry), sizeof entry});
}

}  // namespace

std::uint64_t layout_hash() {
  using namespace table;
  const std::uint64_t numbers[] = {
      sizeof(TableHead), offsetof(TableHead, table), offsetof(FileHead, slots), sizeof(ProcessSlot),
      // Of the table.
      sizeof(TableState), offsetof(TableState, hash), offsetof(TableState, newest_creation),
      offsetof(TableState, crowded_calls), offsetof(Totals, tracked), offsetof(Totals, occupied),
      offsetof(Totals, recount),
      // Of a shard.
      sizeof(ShardState), offsetof(ShardState, mutex_word), offsetof(ShardState, log),
      offsetof(ShardState, start_of_log), offsetof(ShardState, index), offsetof(ShardState, cursor),
      offsetof(ShardState, tracked), offsetof(ShardState, overflow_entries),
      offsetof(ShardState, is_counting), offsetof(ShardState, is_marked),
      offsetof(ShardState, is_out_of_bytes), offsetof(ShardState, is_damaged), offsetof(ShardState, arena),
      // Of its parts.
      sizeof(UndoLog::State), sizeof(Index::State), sizeof(Arena::State), sizeof(Arena::Part), UndoLog::kRoom,
      Arena::kGranule, kShardsAt, kLeastShardBytes,
      // Of an entry.
      hash_of_entry(), sizeof(Record), offsetof(Record, expires_at), offsetof(Record, header),
      offsetof(Record, ring), offsetof(Record, note), offsetof(Ring, capacity), offsetof(Ring, head),
      offsetof(Ring, length), sizeof(Cell)};
  return hash_of({reinterpret_cast<const char*>(numbers), sizeof numbers});
}

Layout::Layout(std::size_t max_keys, std::size_t max_bytes)
    : bytes_(whole_pages(max_bytes)),
      division_(table::Division::of(max_keys, bytes_ - kShardsAt, kLeastShardBytes, kShardHead)) {}

table::Shard::Place Layout::place(std::byte* base, unsigned shard) const {
  auto* const head = reinterpret_cast<TableHead*>(base);
  std::byte* const start = base + kShardsAt + shard * (kShardHead + division_.shard_bytes);
  std::byte* const memory = start + kShardHead;
  return {.state = *reinterpret_cast<table::ShardState*>(start),
          .totals = head->table.totals,
          .memory = std::span(memory, division_.shard_bytes),
          .most_buckets = division_.most_buckets,
          .log = std::span(start + offsetof(table::ShardState, start_of_log), memory),
          .logged = std::span(base, bytes_),
          .ordinal = shard};
}

}  // namespace overlimit::shared_memory
