#include "redis/leases/lease.hpp"

#include <algorithm>

namespace overlimit::redis {

Lease::Lease(LeaseSubject subject, LeaseTerms terms, std::optional<SharedUnits> units)
    : subject_(std::move(subject)),
      terms_(std::move(terms)),
      own_word_(std::uint64_t(terms_.granted)),
      word_(units ? units->word : &own_word_),
      mask_(units ? SharedUnits::kMask : ~std::uint64_t{0}),
      tag_(units ? units->tag : 0) {}

bool Lease::take(Cost units, Cost& left) {
  std::uint64_t word = word_->load(std::memory_order_acquire);
  while (is_own(word) && units_in(word) >= units) {
    if (!word_->compare_exchange_weak(word, word - std::uint64_t(units), std::memory_order_acq_rel)) continue;
    left = units_in(word) - units;
    return true;
  }
  left = is_own(word) ? units_in(word) : 0;
  return false;
}

bool Lease::refund(Cost units) {
  std::uint64_t word = word_->load(std::memory_order_acquire);
  while (is_own(word) && std::uint64_t(units) <= mask_ - (word & mask_)) {
    if (word_->compare_exchange_weak(word, word + std::uint64_t(units), std::memory_order_acq_rel))
      return true;
  }
  return false;
}

Cost Lease::take_rest() {
  std::uint64_t word = word_->load(std::memory_order_acquire);
  while (is_own(word)) {
    if (!word_->compare_exchange_weak(word, tag_, std::memory_order_acq_rel)) continue;
    rest_.fetch_add(units_in(word), std::memory_order_acq_rel);
    return units_in(word);
  }
  return 0;
}

bool Lease::is_charged_by(std::span<const Receipt> receipts) const {
  return std::ranges::equal(terms_.rows, receipts, [](const LeasedRow& row, const Receipt& receipt) {
    return row.receipt.created_at == receipt.created_at && row.receipt.after == receipt.after;
  });
}

void Lease::show(Instant time, Cost left, const Rows& rows) const {
  const Cost besides = besides_.load(std::memory_order_relaxed);
  for (std::size_t i = 0; i < terms_.rows.size(); ++i) {
    const LeasedRow& row = terms_.rows[i];
    rows.status[i] = Status::ok;
    rows.remaining[i] = std::max<Cost>(0, row.remaining - besides) + left;
    rows.retry_after[i] = {};
    rows.reset_after[i] = max(Duration{}, row.gone_at - time);
    rows.delay[i] = {};
    rows.receipt[i] = row.receipt;
  }
}

void Lease::show_refused(Instant time, Duration retry_after, const Rows& rows) const {
  show(time, 0, rows);
  std::fill_n(rows.receipt, terms_.rows.size(), Receipt{});
  rows.status[0] = Status::over;
  rows.remaining[0] = 0;
  rows.retry_after[0] = retry_after;
}

std::vector<Receipt> Lease::receipts() const {
  std::vector<Receipt> receipts;
  for (const LeasedRow& row : terms_.rows) receipts.push_back(row.receipt);
  return receipts;
}

}  // namespace overlimit::redis
