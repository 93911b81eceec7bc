// The records of all identifiers of a replay, found by their numbers: an array, with rings of cells beside it
// for limits that keep a history. Grows only by cells.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <vector>

#include "overlimit/compiled_policy.hpp"
#include "overlimit/pair.hpp"

namespace overlimit::simulation {

/// The cells of one record, oldest first, in a ring of a capacity that is a power of two.
class CellRing {
 public:
  CellRing() = default;
  CellRing(CellRing&& other) noexcept = default;
  CellRing& operator=(CellRing&& other) noexcept = default;

  [[nodiscard]] Cells view() const {
    if (length_ == 0) return {};
    const std::uint32_t until_end = std::min(length_, capacity_ - head_);
    return {cells_.get() + head_, until_end, cells_.get(), length_ - until_end};
  }
  /// Fetches from main memory the oldest cell, and the place of the next.
  void prefetch() const {
    if (capacity_ == 0) return;
    __builtin_prefetch(cells_.get() + head_);
    __builtin_prefetch(cells_.get() + ((head_ + length_) & (capacity_ - 1)));
  }
  void drop_oldest(std::size_t count) {
    const auto dropped = static_cast<std::uint32_t>(std::min<std::size_t>(count, length_));
    head_ = capacity_ == 0 ? 0 : (head_ + dropped) & (capacity_ - 1);
    length_ -= dropped;
  }
  void push(const Cell& cell) {
    if (length_ == capacity_) grow();
    cells_[(head_ + length_++) & (capacity_ - 1)] = cell;
  }

 private:
  void grow() {
    const std::uint32_t capacity = capacity_ == 0 ? 4 : capacity_ * 2;
    auto cells = std::make_unique_for_overwrite<Cell[]>(capacity);
    const Cells before = view();
    for (std::uint32_t i = 0; i < length_; ++i) cells[i] = before[i];
    cells_ = std::move(cells);
    capacity_ = capacity;
    head_ = 0;
  }

  std::unique_ptr<Cell[]> cells_;
  std::uint32_t capacity_ = 0;
  std::uint32_t head_ = 0;
  std::uint32_t length_ = 0;
};

/// One record: that of a limit, or of a lock. Expired at 0: nothing was charged yet.
struct DenseRecord {
  Header header;
  Instant expires_at;
};

class DenseRecords {
 public:
  DenseRecords(const CompiledPolicy& policy, std::size_t identifiers)
      : per_identifier_(policy.tags().size()),
        limits_(policy.size()),
        // Zeroed pages become real as they are touched.
        records_(static_cast<DenseRecord*>(
            std::calloc(std::max<std::size_t>(1, identifiers * per_identifier_), sizeof(DenseRecord)))) {
    if (records_ == nullptr) throw std::bad_alloc();
    if (policy.max_cells() > 0) rings_.resize(identifiers * limits_);
  }

  [[nodiscard]] DenseRecord* of(std::size_t identifier) const {
    return records_.get() + identifier * per_identifier_;
  }
  /// Fetches the records of an identifier from main memory, first by place, and later what they point to.
  void prefetch(std::size_t identifier) const {
    prefetch_all(of(identifier), per_identifier_ * sizeof(DenseRecord));
    if (!rings_.empty()) prefetch_all(&rings_[identifier * limits_], limits_ * sizeof(CellRing));
  }
  void prefetch_cells(std::size_t identifier) const {
    if (rings_.empty()) return;
    for (std::size_t i = 0; i < limits_; ++i) rings_[identifier * limits_ + i].prefetch();
  }
  [[nodiscard]] FoundRecord find(std::size_t identifier, std::size_t limit) const {
    const DenseRecord& record = of(identifier)[limit];
    return {record.expires_at, record.header,
            rings_.empty() ? Cells{} : rings_[identifier * limits_ + limit].view()};
  }
  void write(std::size_t identifier, std::size_t limit, const ChargedPair& written) {
    of(identifier)[limit] = {written.state, written.expires_at};
    if (rings_.empty()) return;
    CellRing& ring = rings_[identifier * limits_ + limit];
    ring.drop_oldest(written.dropped);
    if (written.pushed) ring.push(*written.pushed);
  }

 private:
  static void prefetch_all(const void* place, std::size_t bytes) {
    constexpr std::size_t kLine = 64;
    const char* const begin = static_cast<const char*>(place);
    for (std::size_t i = 0; i < bytes; i += kLine) __builtin_prefetch(begin + i);
    __builtin_prefetch(begin + bytes - 1);
  }
  struct Free {
    void operator()(DenseRecord* records) const { std::free(records); }
  };

  std::size_t per_identifier_;
  std::size_t limits_;
  std::unique_ptr<DenseRecord[], Free> records_;
  std::vector<CellRing> rings_;
};

}  // namespace overlimit::simulation
