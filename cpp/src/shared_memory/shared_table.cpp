#include "shared_memory/shared_table.hpp"

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

/// A hash of the sizes and the places of everything in the file.
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

/// What lies where in a file of these sizes.
class Layout {
 public:
  explicit Layout(const Sizes& sizes)
      : bytes_(whole_pages(sizes.max_bytes)),
        division_(table::Division::of(sizes.max_keys, bytes_ - kShardsAt, kLeastShardBytes, kShardHead)) {}
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  [[nodiscard]] std::size_t shards() const { return division_.shards; }
  [[nodiscard]] table::Shard::Place place(std::byte* base, unsigned shard) const {
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

 private:
  std::size_t bytes_;
  table::Division division_;
};

/// Of a file that nobody else has seen yet, no shard is ever locked.
class Nobody final : public table::Holders {
 public:
  [[nodiscard]] bool has_ended(std::uint32_t) const override { return true; }
};

void format(Mapping& mapping, const Sizes& sizes) {
  auto* const head = reinterpret_cast<TableHead*>(mapping.base());
  new (&head->table) table::TableState{};
  head->table.totals.max_keys = sizes.max_keys;
  const Layout layout(sizes);
  const Nobody nobody;
  for (unsigned i = 0; i < layout.shards(); ++i)
    table::Shard(layout.place(mapping.base(), i), &nobody).format();
}

std::vector<std::unique_ptr<table::Shard>> shards_of(Mapping& mapping, const table::Holders& processes) {
  const Layout layout(mapping.sizes());
  std::vector<std::unique_ptr<table::Shard>> shards;
  for (unsigned i = 0; i < layout.shards(); ++i) {
    shards.push_back(std::make_unique<table::Shard>(layout.place(mapping.base(), i), &processes));
  }
  return shards;
}

}  // namespace

const FileKind SharedTable::kFiles{
    .magic = {'o', 'v', 'e', 'r', 'l', 'm', 't', '\n'},
    .version = 3,
    .suffix = "",
    .remedy = "call unlink() on the store",
    .elsewhere = "give the store another name",
    .economy = "give the store a smaller max_bytes",
    .layout = layout_hash,
    .bytes = [](const Sizes& sizes) { return Layout(sizes).bytes(); },
    .format = format,
    .view = [](Mapping& mapping, const table::Holders& processes) -> std::unique_ptr<View> {
      return std::make_unique<SharedTable>(mapping, processes);
    }};

SharedTable::SharedTable(Mapping& mapping, const table::Holders& processes)
    : table_(reinterpret_cast<TableHead*>(mapping.base())->table, shards_of(mapping, processes)) {}

}  // namespace overlimit::shared_memory
