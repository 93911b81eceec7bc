// The records of a replay, found by the numbers of their identifiers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory_resource>

#include "overlimit/compiled_policy.hpp"
#include "overlimit/pair.hpp"
#include "platform/virtual_memory.hpp"

namespace overlimit {
// With a name, as these are the types of members of a class of replay.hpp, in whatever file they are
// compiled.
inline namespace simulation {

inline constexpr std::size_t kCacheLine = 64;

/// One record: that of a limit, or of a lock. Expired at 0: nothing was charged yet. Zeroed memory is one.
struct DenseRecord {
  Header header;
  Instant expires_at;

  [[nodiscard]] Cells cells() const { return {}; }
  // Only a refund leaves a note, and a replay refunds nothing.
  void change_cells(std::size_t /*dropped*/, const std::optional<Cell>& /*pushed*/,
                    std::pmr::memory_resource& /*room*/) {}
};

/// Cells, oldest first, in a ring of a capacity that is a power of two. A single one lies within.
class CellRing {
 public:
  [[nodiscard]] Cells view() const {
    const std::uint32_t until_end = std::min<std::uint32_t>(length_, capacity() - head_);
    return {cells() + head_, until_end, cells(), length_ - until_end};
  }
  /// Fetches from main memory the oldest cell, and the place of the next.
  void prefetch() const {
    __builtin_prefetch(cells() + head_);
    __builtin_prefetch(cells() + place(length_));
  }
  void drop_oldest(std::size_t count) {
    const auto dropped = static_cast<std::uint16_t>(std::min<std::size_t>(count, length_));
    head_ = place(dropped);
    length_ = static_cast<std::uint16_t>(length_ - dropped);
  }
  void push(const Cell& cell, std::pmr::memory_resource& room) {
    if (length_ == capacity()) [[unlikely]]
      grow(room);
    cells()[place(length_++)] = cell;
  }

 private:
  static_assert(kMostCells < 1 << 14);

  [[nodiscard]] std::uint32_t capacity() const { return last_ + std::uint32_t{1}; }
  [[nodiscard]] std::uint16_t place(std::uint32_t number) const {
    return static_cast<std::uint16_t>((head_ + number) & last_);
  }
  [[nodiscard]] const Cell* cells() const { return last_ == 0 ? &single_ : others_; }
  Cell* cells() { return last_ == 0 ? &single_ : others_; }

  [[gnu::noinline]] void grow(std::pmr::memory_resource& room) {
    const std::uint32_t capacity = std::max<std::uint32_t>(kCacheLine / sizeof(Cell), 2 * this->capacity());
    auto* const grown = static_cast<Cell*>(room.allocate(capacity * sizeof(Cell), kCacheLine));
    const Cells before = view();
    for (std::uint32_t i = 0; i < length_; ++i) new (grown + i) Cell(before[i]);
    if (last_ != 0) room.deallocate(others_, this->capacity() * sizeof(Cell), kCacheLine);
    others_ = grown;
    last_ = static_cast<std::uint16_t>(capacity - 1);
    head_ = 0;
  }

  Cell* others_;  // where there is room for more than one
  std::uint16_t last_;
  std::uint16_t head_;
  std::uint16_t length_;
  Cell single_;
};

/// That of a limit with a history: of one cache line, as long as it has no more cells than one.
struct alignas(kCacheLine) DenseHistory : DenseRecord {
  CellRing ring;

  [[nodiscard]] Cells cells() const { return ring.view(); }
  void change_cells(std::size_t dropped, const std::optional<Cell>& pushed, std::pmr::memory_resource& room) {
    ring.drop_oldest(dropped);
    if (pushed) ring.push(*pushed, room);
  }
};
static_assert(sizeof(DenseHistory) == kCacheLine);

template <class Record>
[[gnu::always_inline]] inline FoundRecord found_in(const Record& record) {
  const auto& [first, second, third] = record.header;
  return {record.expires_at, {first, second, third}, record.cells()};
}

/// The records of all identifiers, those of one side by side. They grow only by cells.
class DenseRecords {
 public:
  DenseRecords(const CompiledPolicy& policy, std::size_t identifiers)
      : have_histories_(policy.max_cells() > 0),
        record_bytes_(have_histories_ ? sizeof(DenseHistory) : sizeof(DenseRecord)),
        bytes_each_(policy.tags().size() * record_bytes_),
        records_(platform::reserve_pages(std::max<std::size_t>(1, identifiers * bytes_each_))) {
    platform::prefer_large_pages(records_.get(), records_.get_deleter().bytes);
  }

  /// The first record of an identifier. All are of one type.
  template <class Record>
  [[nodiscard]] Record* of(std::size_t identifier) const {
    return reinterpret_cast<Record*>(records_.get() + identifier * bytes_each_);
  }
  /// What all types have of any record.
  [[nodiscard]] DenseRecord& at(std::size_t identifier, std::size_t place) const {
    return *reinterpret_cast<DenseRecord*>(records_.get() + identifier * bytes_each_ + place * record_bytes_);
  }
  [[nodiscard]] FoundRecord find(std::size_t identifier, std::size_t place) const {
    return have_histories_ ? found_in(of<DenseHistory>(identifier)[place])
                           : found_in(of<DenseRecord>(identifier)[place]);
  }
  void write(std::size_t identifier, std::size_t place, const ChargedPair& written) {
    DenseRecord& record = at(identifier, place);
    record.header = written.state;
    record.expires_at = written.expires_at;
    if (have_histories_) {
      of<DenseHistory>(identifier)[place].change_cells(written.dropped, written.pushed, room_);
    }
  }
  [[nodiscard]] bool have_histories() const { return have_histories_; }
  std::pmr::memory_resource& room() { return room_; }

  /// Fetches the records of an identifier from main memory, and later the cells of so many of them.
  void prefetch(std::size_t identifier) const {
    const std::byte* const begin = records_.get() + identifier * bytes_each_;
    for (std::size_t i = 0; i < bytes_each_; i += kCacheLine) __builtin_prefetch(begin + i, 1);
    __builtin_prefetch(begin + bytes_each_ - 1, 1);
  }
  void prefetch_cells(std::size_t identifier, std::size_t limits) const {
    if (!have_histories_) return;
    for (std::size_t i = 0; i < limits; ++i) of<DenseHistory>(identifier)[i].ring.prefetch();
  }

 private:
  bool have_histories_;
  std::size_t record_bytes_;
  std::size_t bytes_each_;
  platform::Pages records_;
  std::pmr::unsynchronized_pool_resource room_;
};

}  // namespace simulation
}  // namespace overlimit
