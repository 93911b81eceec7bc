#include "redis/leases/leased_parts.hpp"

namespace overlimit::redis {

LeasedParts::LeasedParts(Leasing& leasing, const Call& call) : leasing_(leasing), call_(call), rest_(call) {
  for (const Charge& charge : call.charges) {
    leases_.push_back(leasing.usable(charge));
    left_.push_back(leases_.back() ? leases_.back()->left() : 0);
    if (leases_.back() != nullptr) {
      ++count_;
    } else {
      others_.push_back(charge);
    }
  }
  if (!are_some()) return;
  rest_.charges = others_;
  const std::size_t pairs = pairs_of(others_);
  memory_ = std::make_unique_for_overwrite<std::byte[]>(kRowBytes * pairs);
  rows_ = rows_at(memory_.get(), pairs);
}

// Units are taken first and the clock is read after that, as for a single one.
bool LeasedParts::take() {
  std::size_t taken = 0;
  const auto refund = [&] {
    for (std::size_t k = 0; k < taken; ++k) {
      if (leases_[k] != nullptr) leasing_.refund_to(leases_[k], call_.charges[k].cost);
    }
  };
  for (; taken < leases_.size(); ++taken) {
    if (leases_[taken] != nullptr && !leases_[taken]->take(call_.charges[taken].cost, left_[taken])) {
      refund();
      return false;
    }
  }
  const Duration now = boot_time();
  const auto has_ended = [now](const auto& lease) { return lease != nullptr && lease->has_ended(now); };
  if (!std::ranges::any_of(leases_, has_ended)) return true;
  refund();
  return false;
}

Instant LeasedParts::time() const {
  const Duration now = boot_time();
  Instant latest{};
  for (const auto& lease : leases_) {
    if (lease != nullptr) latest = max(latest, lease->time(now));
  }
  return latest;
}

void LeasedParts::note_time(Instant time) const {
  for (const auto& lease : leases_) {
    if (lease != nullptr) lease->note_time(time);
  }
}

void LeasedParts::show(Instant time, const Rows& rows) const {
  std::size_t row = 0;
  std::size_t own = 0;
  for (std::size_t k = 0; k < leases_.size(); ++k) {
    const std::size_t count = call_.charges[k].policy->size();
    const Rows to = rows_of(rows, row, count);
    if (leases_[k] != nullptr) {
      leases_[k]->show(time, left_[k], to);
    } else {
      copy_rows(rows_of(rows_, own, count), to);
      own += count;
    }
    row += count;
  }
}

}  // namespace overlimit::redis
