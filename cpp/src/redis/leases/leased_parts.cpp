#include "redis/leases/leased_parts.hpp"

#include <algorithm>

namespace overlimit::redis {
namespace {

/// The lease of a key that has enough for this charge, or nullptr.
std::shared_ptr<Lease> usable(Leases& leases, const Charge& charge, Duration longest) {
  std::shared_ptr<Lease> lease = leases.find(charge);
  const Duration now = boot_time();
  const bool is_usable =
      lease != nullptr && lease->covers(charge) && lease->is_recent(now, longest) && !lease->has_ended(now);
  return is_usable ? lease : nullptr;
}

}  // namespace

LeasedParts::LeasedParts(Leases& leases, const Call& call, Duration longest)
    : releases_(leases.releases()), call_(call), rest_(call) {
  for (const Charge& charge : call.charges) {
    leases_.push_back(usable(leases, charge, longest));
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

bool LeasedParts::decide_here(Calls& below, const Rows& rows, Instant& time, Basis& basis) {
  if (are_all()) {
    if (!take()) return false;
    time = this->time();
    basis.source = Source::lease;
  } else if (!are_some() || !below.decide_here(rest_, {}, rows_, time, basis)) {
    return false;
  }
  show(time, rows);
  return true;
}

std::optional<Instant> LeasedParts::decide(Calls& below, const Rows& rows, Basis& basis, const Wait& wait) {
  const Instant time = below.decide(rest_, rows_, basis, wait);
  const std::span<const Status> verdicts(rows_.status, rows_.count);
  const bool admits = std::ranges::all_of(verdicts, [](Status each) { return each == Status::ok; });
  if (admits && !take()) return std::nullopt;
  show(time, rows);
  return time;
}

// Units are taken first and the clock is read after that, as for a single one.
bool LeasedParts::take() {
  std::size_t taken = 0;
  const auto refund = [&] {
    for (std::size_t k = 0; k < taken; ++k) {
      if (leases_[k] != nullptr) releases_.refund(leases_[k], call_.charges[k].cost);
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

// The latest of the instants that the leases' servers can be showing, at the earliest.
Instant LeasedParts::time() const {
  const Duration now = boot_time();
  Instant latest{};
  for (const auto& lease : leases_) {
    if (lease != nullptr) latest = max(latest, lease->time(now));
  }
  return latest;
}

// Later decisions of these leases are no earlier.
void LeasedParts::show(Instant time, const Rows& rows) const {
  std::size_t row = 0;
  std::size_t own = 0;
  for (std::size_t k = 0; k < leases_.size(); ++k) {
    const std::size_t count = call_.charges[k].policy->size();
    const Rows to = rows_of(rows, row, count);
    if (leases_[k] != nullptr) {
      leases_[k]->note_time(time);
      leases_[k]->show(time, left_[k], to);
    } else {
      copy_rows(rows_of(rows_, own, count), to);
      own += count;
    }
    row += count;
  }
}

}  // namespace overlimit::redis
