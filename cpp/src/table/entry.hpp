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
/// Packed, so that an entry of one limit has 96 bytes, which lie in two cache lines wherever a block begins.
class Entry {
 public:
  static constexpr std::size_t kMostRecords = 1023;

  /// Neither created nor kept, with room for so many records behind it, at most kMostRecords.
  Entry(const KeyHash& key, std::uint64_t policy, std::size_t records)
      : key_low_(key.low), key_high_(key.high), policy_(policy), records_(records & kMostRecords) {}

  [[nodiscard]] KeyHash key() const { return {key_low_, key_high_}; }
  [[nodiscard]] bool is_of(const KeyHash& key) const { return key_low_ == key.low && key_high_ == key.high; }
  /// The digest of its policy, or kNoPolicy.
  [[nodiscard]] std::uint64_t policy() const { return policy_; }
  [[nodiscard]] std::size_t records() const { return records_; }
  /// Whether it is shared by the keys that the table has no room for.
  [[nodiscard]] bool is_overflow() const { return is_overflow_ != 0; }
  void make_overflow() { is_overflow_ = 1; }
  /// 0: nothing has been charged yet.
  [[nodiscard]] Instant created_at() const { return Instant(static_cast<std::int64_t>(created_at_)); }
  void set_created_at(Instant at) { created_at_ = static_cast<std::uint64_t>(at.micros()) & (kExact - 1); }
  /// Whether it may be erased, at an instant of real time.
  [[nodiscard]] bool is_due(Instant real_now) {
    if ((kept_ >> 1) * kKeptUnit > static_cast<std::uint64_t>(real_now.micros())) return false;
    return (kept_ & kByRecords) == 0 || last_expiry() <= real_now;
  }
  /// Keeps it until its records have expired, in real time.
  void keep_for_records() { kept_ = kept_units(last_expiry()) << 1 | kByRecords; }
  /// Keeps it until this instant of real time, or for less than kKeptUnit longer.
  void keep_until(Instant at) { kept_ = kept_units(at + Duration(kKeptUnit - 1)) << 1; }
  void keep_as_long_as(const Entry& other) { kept_ = other.kept_; }
  /// The next one in its bucket of the index.
  [[nodiscard]] Offset& next() { return next_; }
  [[nodiscard]] Offset next() const { return next_; }

  static constexpr std::size_t size_for(std::size_t records) {
    return sizeof(Entry) + records * sizeof(Record);
  }
  [[nodiscard]] std::size_t size() const { return size_for(records()); }
  /// Where that begins which calls change: from there on, to the end of the last record that they do.
  [[nodiscard]] const std::byte* changing() const {
    return reinterpret_cast<const std::byte*>(this) + kChangingAt;
  }
  static constexpr std::size_t changing_size(std::size_t records) { return size_for(records) - kChangingAt; }
  Record* begin() { return reinterpret_cast<Record*>(this + 1); }
  Record* end() { return begin() + records(); }
  std::span<Record> first(std::size_t count) { return {begin(), count}; }
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

  /// The hash that was last set, of all that seal_now() reads.
  [[nodiscard]] bool has_right_seal() { return seal_ == seal_now(); }
  void set_seal() { seal_ = seal_now(); }

 private:
  /// About four seconds, a power of two: so many units as 31 bits can count reach beyond kMaxTime.
  static constexpr std::uint64_t kKeptUnit = std::uint64_t{1} << 22;
  static constexpr std::uint32_t kByRecords = 1;
  static std::uint32_t kept_units(Instant at) {
    return static_cast<std::uint32_t>(static_cast<std::uint64_t>(at.micros()) / kKeptUnit);
  }
  static constexpr std::size_t kChangingAt = 24;

  /// A hash of the entry and its records, but not of its place in the index.
  [[nodiscard]] std::uint32_t seal_now();

  std::uint64_t key_low_;
  std::uint32_t key_high_;
  Offset next_ = 0;
  std::uint64_t policy_;
  std::uint64_t created_at_ : 53 = 0;
  std::uint64_t records_ : 10;
  std::uint64_t is_overflow_ : 1 = 0;
  // Until when at least, in kKeptUnit, and kByRecords if its records tell it exactly.
  std::uint32_t kept_ = 0;
  std::uint32_t seal_ = 0;
};
static_assert(sizeof(Entry) == 40 && Entry::size_for(1) == 96);
static_assert(std::is_trivially_copyable_v<Entry> && std::is_standard_layout_v<Entry>);

/// The cells of a record, oldest first.
inline Cells cells_of(const Arena& arena, const Record& record) {
  const auto& [offset, capacity, head, length] = record.ring;
  if (capacity == 0) return {&record.note, record.note.count < 0 ? std::size_t{1} : 0};
  const Cell* cells = arena.at<const Cell>(offset, capacity * sizeof(Cell));
  const std::size_t until_end = std::min(length, capacity - head);
  return {cells + head, until_end, cells, length - until_end};
}

/// Where others may write the memory: throws Damaged unless the seal is right.
inline void check_seal(const Arena& arena, const UndoLog& log, Entry& entry) {
  if (!log.is_kept()) return;
  (void)arena.at<const std::byte>(arena.offset_of(&entry), entry.size());
  require(entry.has_right_seal());
}
/// To be called when it has been written.
inline void set_seal(const UndoLog& log, Entry& entry) {
  if (log.is_kept()) entry.set_seal();
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
  if (entry.records() < tags.size()) return false;
  const Record* record = entry.begin();
  for (const Tag tag : tags) {
    if (record++->tag != tag) return false;
  }
  return true;
}

// Pairs of words are mixed in two chains, which a processor follows at the same time.
inline std::uint32_t Entry::seal_now() {
  constexpr std::uint64_t kFirst = 0x9e3779b97f4a7c15;
  constexpr std::uint64_t kSecond = 0xc2b2ae3d27d4eb4f;
  const std::uint64_t whole = static_cast<std::uint64_t>(created_at_) |
                              static_cast<std::uint64_t>(records_) << 53 |
                              static_cast<std::uint64_t>(is_overflow_) << 63;
  std::uint64_t even = mix(key_low_ ^ kFirst, (std::uint64_t{key_high_} << 32 | kept_) ^ kSecond);
  std::uint64_t odd = mix(policy_ ^ kSecond, whole ^ kFirst);
  for (const Record& record : *this) {
    const auto& [first, second, third] = record.header;
    even = mix(even ^ record.tag, static_cast<std::uint64_t>(record.expires_at.micros()) ^ kFirst);
    odd = mix(odd ^ static_cast<std::uint64_t>(first), static_cast<std::uint64_t>(second) ^ kSecond);
    std::uint64_t last[2];
    std::memcpy(last, &record.ring, sizeof last);
    even = mix(even ^ static_cast<std::uint64_t>(third), last[0] ^ kSecond);
    odd = mix(odd ^ last[1], kFirst);
  }
  return static_cast<std::uint32_t>(mix(even ^ kFirst, odd ^ kSecond) >> 32);
}

}  // namespace overlimit::table
