// The state of one key in memory: an entry, followed by its records. Offsets only, no pointers.
#pragma once

#include <algorithm>
#include <cstring>
#include <span>

#include "overlimit/limit.hpp"
#include "overlimit/pair.hpp"
#include "table/arena.hpp"
#include "table/keyed_hash.hpp"
#include "table/undo_log.hpp"

namespace overlimit::table {

/// The place of a record's cells, in a ring of `capacity` (a power of two, or 0).
struct Ring {
  Offset cells;
  std::uint32_t capacity;
  std::uint32_t head;
  std::uint32_t length;
};

/// One limit's state, found by its tag. Without a ring, its only cell may be a note, whose count is negative.
struct Record {
  Tag tag;
  Instant expires_at;  ///< 0: nothing was ever charged
  Header header;
  union {
    Ring ring;
    Cell note;
  };
};

/// The policy of a common overflow entry, which policies share.
inline constexpr std::uint64_t kNoPolicy = 0;

/// What is kept for one key of a policy, or for all keys without an entry of their own (an overflow entry).
/// `sweep_at` is in real time: the instant from which the entry may be erased.
struct Entry {
  static constexpr std::uint32_t kMostRecords = (1U << 31) - 1;

  KeyHash key;
  std::uint64_t policy;  ///< the digest of its policy, or kNoPolicy
  Instant created_at;
  Instant sweep_at;
  std::uint32_t records : 31;
  std::uint32_t overflow : 1;  ///< shared by the keys that the table has no room for
  Offset next;                 ///< in its bucket of the index

  static constexpr std::size_t size_for(std::size_t records) {
    return sizeof(Entry) + records * sizeof(Record);
  }
  [[nodiscard]] std::size_t size() const { return size_for(records); }
  Record* begin() { return reinterpret_cast<Record*>(this + 1); }
  Record* end() { return begin() + records; }
  /// The record of this tag from this place on, or nullptr.
  Record* find(Tag tag, std::size_t from = 0) {
    Record* const found =
        std::find_if(begin() + from, end(), [&](const Record& record) { return record.tag == tag; });
    return found == end() ? nullptr : found;
  }
  Instant last_expiry() {
    Instant last{};
    for (const Record& record : *this) last = max(last, record.expires_at);
    return last;
  }
};
static_assert(sizeof(Entry) % alignof(Record) == 0 && sizeof(Entry) == 48);

/// The cells of a record, oldest first.
inline Cells cells_of(const Arena& arena, const Record& record) {
  const auto& [offset, capacity, head, length] = record.ring;
  if (capacity == 0) return {&record.note, record.note.count < 0 ? std::size_t{1} : 0};
  const Cell* cells = arena.at<const Cell>(offset, capacity * sizeof(Cell));
  const std::size_t until_end = std::min(length, capacity - head);
  return {cells + head, until_end, cells, length - until_end};
}

inline constexpr std::size_t kSealSize = sizeof(std::uint64_t);
/// A hash of an entry and its records, not of its place in the index. It lies behind the last record.
std::uint64_t seal_of(Entry& entry);
/// Where others may write the memory: throws Damaged unless the seal is right.
inline void check_seal(const Arena& arena, const UndoLog& log, Entry& entry) {
  if (!log.is_kept()) return;
  const std::size_t size = entry.size();
  const auto* const bytes = arena.at<const std::byte>(arena.offset_of(&entry), size + kSealSize);
  std::uint64_t seal = 0;
  std::memcpy(&seal, bytes + size, sizeof seal);
  require(seal == seal_of(entry));
}
/// To be called when it has been written.
inline void set_seal(const UndoLog& log, Entry& entry) {
  if (!log.is_kept()) return;
  const std::uint64_t seal = seal_of(entry);
  std::memcpy(reinterpret_cast<std::byte*>(&entry) + entry.size(), &seal, sizeof seal);
}
inline std::size_t block_size(const UndoLog& log, std::size_t records) {
  return Entry::size_for(records) + (log.is_kept() ? kSealSize : 0);
}

/// Stores the record after a charge; the caller has saved it. Never fails: without room for one more cell the
/// newest two are merged into the later one, which then counts for longer than necessary.
[[gnu::noinline]] void commit_cells(Arena& arena, UndoLog& log, Record& record, std::size_t dropped,
                                    const std::optional<Cell>& pushed);
template <class State>
void commit(Arena& arena, UndoLog& log, Record& record, const ChargedRecord<State>& after,
            Instant expires_at) {
  record.expires_at = expires_at;
  record.header = header_from(after.state);
  if (after.pushed || record.ring.capacity > 0) {
    // Not the optional itself, which a call by reference would keep in memory all the way.
    const auto pushed =
        after.pushed ? std::optional(Cell{after.pushed->at, after.pushed->count}) : std::nullopt;
    commit_cells(arena, log, record, after.dropped, pushed);
  } else if (after.dropped > 0) {
    record.ring = {};
  }
}

/// Stores the record after a refund; the caller has saved it. A cell with nothing left is taken out, unless
/// more cells follow it than the log has room for.
void commit(Arena& arena, UndoLog& log, Record& record, const RefundedRecord<Header>& refunded);

void drop_cells(Arena& arena, Record& record);

/// Whether the entry starts with the records of these tags, in this order. Other records may follow.
inline bool starts_with(Entry& entry, std::span<const Tag> tags) {
  if (entry.records < tags.size()) return false;
  const Record* record = entry.begin();
  for (const Tag tag : tags) {
    if (record++->tag != tag) return false;
  }
  return true;
}

}  // namespace overlimit::table
