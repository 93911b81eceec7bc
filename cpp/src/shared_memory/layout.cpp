#include "shared_memory/layout.hpp"

#include <unistd.h>

namespace overlimit::shared_memory {
namespace {

constexpr std::size_t kLeastShardBytes = std::size_t{1} << 20;
constexpr std::size_t kCacheLine = 64;

constexpr std::size_t rounded_up(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

constexpr std::size_t kStatesAt = rounded_up(sizeof(FileHead), kCacheLine);

std::size_t fixed_bytes() {
  return kStatesAt + rounded_up(table::kMaxShards * sizeof(table::ShardState), kCacheLine);
}

std::size_t whole_pages(std::size_t bytes) {
  return rounded_up(bytes, static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)));
}

}  // namespace

std::uint64_t layout_hash() {
  using namespace table;
  const std::uint64_t numbers[] = {
      sizeof(FileHead), offsetof(FileHead, table), offsetof(FileHead, slots), sizeof(ProcessSlot),
      // Of the table.
      sizeof(TableState), offsetof(TableState, hash), offsetof(TableState, newest_creation),
      offsetof(TableState, crowded_calls), offsetof(Totals, tracked), offsetof(Totals, occupied),
      offsetof(Totals, recount),
      // Of a shard.
      sizeof(ShardState), offsetof(ShardState, log), offsetof(ShardState, index),
      offsetof(ShardState, cursor), offsetof(ShardState, tracked), offsetof(ShardState, overflow_entries),
      offsetof(ShardState, is_counting), offsetof(ShardState, is_marked),
      offsetof(ShardState, is_out_of_bytes), offsetof(ShardState, is_damaged), offsetof(ShardState, arena),
      // Of its parts.
      sizeof(UndoLog::State), sizeof(Index::State), sizeof(Arena::State), sizeof(Arena::Part), UndoLog::kRoom,
      Arena::kGranule, fixed_bytes(), kLeastShardBytes,
      // Of an entry.
      sizeof(Entry), offsetof(Entry, policy), offsetof(Entry, created_at), offsetof(Entry, sweep_at),
      offsetof(Entry, next), kSealSize, sizeof(Record), offsetof(Record, expires_at),
      offsetof(Record, header), offsetof(Record, ring), offsetof(Record, note), offsetof(Ring, capacity),
      offsetof(Ring, head), offsetof(Ring, length), sizeof(Cell)};
  return hash_of({reinterpret_cast<const char*>(numbers), sizeof numbers});
}

std::uint64_t check_of(const Header& header) {
  return hash_of({reinterpret_cast<const char*>(&header), offsetof(Header, check)});
}

Layout::Layout(std::size_t max_keys, std::size_t max_bytes)
    : bytes_(whole_pages(max_bytes)),
      division_(
          table::Division::of(max_keys, bytes_ - fixed_bytes(), kLeastShardBytes, table::UndoLog::kRoom)) {}

std::size_t Layout::memory_at(unsigned shard) const {
  return fixed_bytes() + shard * (division_.shard_bytes + table::UndoLog::kRoom);
}

table::Shard::Place Layout::place(std::byte* base, unsigned shard) const {
  auto* const head = reinterpret_cast<FileHead*>(base);
  auto* const states = reinterpret_cast<table::ShardState*>(base + kStatesAt);
  std::byte* const log = base + memory_at(shard);
  return {.state = states[shard],
          .totals = head->table.totals,
          .memory = std::span(log + table::UndoLog::kRoom, division_.shard_bytes),
          .most_buckets = division_.most_buckets,
          .log = std::span(log, table::UndoLog::kRoom),
          .logged = std::span(base, bytes_),
          .ordinal = shard};
}

}  // namespace overlimit::shared_memory
