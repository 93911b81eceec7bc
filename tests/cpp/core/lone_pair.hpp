// The smallest store there can be: one pair, its record in plain sight.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "../columns.hpp"
#include "overlimit/pair.hpp"

namespace overlimit::testing {

/// One row, as shown to the caller.
struct Shown {
  Status status;
  std::int64_t remaining;
  For retry_after;
  For reset_after;
  For delay = 0;
  bool operator==(const Shown&) const = default;
};

class LonePair {
 public:
  explicit LonePair(Limit limit) : limit_(std::move(limit)) {}

  /// Refuses what would have to wait for longer than `patience`.
  Shown hit(At reading, Cost cost = 1, For patience = kNever) {
    const ExaminedPair pair = examined(reading, cost, patience);
    if (pair.verdict.status != Status::ok || cost == 0) return uncharged(pair);
    const ChargedPair written = charge(limit_, pair, cost);
    cells_.erase(cells_.begin(), cells_.begin() + std::ptrdiff_t(std::min(written.dropped, cells_.size())));
    if (written.pushed) cells_.push_back(*written.pushed);
    record_ = {written.expires_at, written.state, {}};
    Columns columns(1);
    fill_charged(limit_, written.state, reading, Instant(1), columns.rows(), 0);
    return row(columns);
  }

  Shown peek(At reading, Cost cost = 0) const { return uncharged(examined(reading, cost)); }
  bool allows(At reading, Cost cost = 1) const { return peek(reading, cost).status == Status::ok; }
  ExaminedPair examined(At reading, Cost cost, For patience = kNever) const {
    if (!record_) return examine(limit_, nullptr, reading, cost, patience);
    const FoundRecord found = as_found();
    return examine(limit_, &found, reading, cost, patience);
  }

  /// What a receipt keeps of the latest charge.
  Header receipt() const { return record_->header; }
  /// Gives back a charge of `cost` that left behind what `receipt` told then; whether anything changed.
  bool refund(At reading, const Header& receipt, Cost cost = 1) {
    const auto left = overlimit::refund(limit_, as_found(), receipt, reading, cost);
    if (!left) return false;
    const bool changes = left->state != record_->header;
    record_->header = left->state;
    if (left->note) cells_ = {*left->note};
    if (left->cell >= cells_.size()) return changes;
    cells_[left->cell].count = left->cell_count;
    if (left->cell_count == 0) cells_.erase(cells_.begin() + std::ptrdiff_t(left->cell));
    return changes;
  }

  /// The record stays, the limit's numbers change.
  void change(Limit limit) { limit_ = std::move(limit); }
  void expire_at(At instant) { record_->expires_at = instant; }
  const std::optional<FoundRecord>& record() const { return record_; }
  const std::vector<Cell>& cells() const { return cells_; }

 private:
  FoundRecord as_found() const {
    return {record_->expires_at, record_->header, Cells(cells_.data(), cells_.size())};
  }
  static Shown row(const Columns& columns) {
    return {columns.status[0], columns.remaining[0], columns.retry_after[0], columns.reset_after[0],
            columns.delay[0]};
  }
  Shown uncharged(const ExaminedPair& pair) const {
    Columns columns(1);
    fill_uncharged(limit_, pair, columns.rows(), 0);
    return row(columns);
  }

  Limit limit_;
  std::optional<FoundRecord> record_;
  std::vector<Cell> cells_;
};

}  // namespace overlimit::testing
