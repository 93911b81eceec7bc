#include "values/call_on_values.hpp"

#include <algorithm>
namespace overlimit::values {
namespace {

bool ever_fits(const Charge& charge) {
  return charge.role == Role::shadow || charge.role == Role::always ||
         std::ranges::all_of(charge.policy->limits(),
                             [&](const CompiledLimit& each) { return cost_of(charge) <= most(each.limit); });
}

}  // namespace

bool may_charge(const Call& call) {
  return call.mode == Mode::consume && spends(call.charges) && std::ranges::all_of(call.charges, ever_fits);
}

CallOnValues::CallOnValues(const Call& call, std::span<const FoundKey> keys,
                           std::pmr::memory_resource* memory)
    : call_(call), keys_(keys), pairs_(memory), locks_(memory), verdicts_(memory) {
  examine_all();
  resolution_ = resolve(call_, [&](std::size_t k) { return verdicts_[k]; });
}

bool CallOnValues::are_all_locked() const {
  return std::ranges::all_of(verdicts_, [](Status each) { return each == Status::locked; });
}

// What they tell a caller to wait is exact.
bool CallOnValues::still_refuses(std::span<const FoundKey> later) const {
  std::size_t row = 0;
  for (std::size_t k = 0; k < call_.charges.size(); ++k) {
    const Charge& charge = call_.charges[k];
    const auto refuses = [&](const ExaminedPair& pair) { return pair.refuses_at(later[k].now); };
    const std::span pairs = std::span(pairs_).subspan(row, charge.policy->size());
    row += pairs.size();
    if (charge.role != Role::enforce) continue;
    if ((locks_[k] && locks_[k]->holds(later[k].now)) || std::ranges::any_of(pairs, refuses)) return true;
  }
  return false;
}

bool CallOnValues::writes() const {
  if (!may_charge(call_)) return false;
  for (std::size_t k = 0; k < call_.charges.size(); ++k) {
    if (charges(k) || set_lock(k)) return true;
  }
  return false;
}

void CallOnValues::show(std::span<const Instant> creations, const Rows& rows) const {
  std::size_t row = 0;
  for (std::size_t k = 0; k < call_.charges.size(); ++k) {
    const bool is_charged = charges(k);
    const std::optional<Lock> set = set_lock(k);
    for (const CompiledLimit& each : call_.charges[k].policy->limits()) {
      if (is_charged) {
        fill_as_charged(each, k, creations.empty() ? Instant{} : creations[k], rows, row);
      } else {
        fill_refused(each.limit, pairs_[row], verdicts_[k], set ? set : locks_[k], keys_[k].now, rows, row);
      }
      ++row;
    }
  }
}

void CallOnValues::show_refused(const Rows& rows) const {
  std::size_t row = 0;
  for (std::size_t k = 0; k < call_.charges.size(); ++k) {
    for (const CompiledLimit& each : call_.charges[k].policy->limits()) {
      fill_refused(each.limit, pairs_[row], verdicts_[k], locks_[k], keys_[k].now, rows, row);
      ++row;
    }
  }
}

std::optional<Value> CallOnValues::written(std::size_t k, Instant created_at) const {
  const auto& [value, now] = keys_[k];
  const std::optional<Lock> set = set_lock(k);
  if (!charges(k) && !set) return std::nullopt;
  if (set) return value->with_lock(created_at, *set);
  Value after = value->without_expired(created_at, now);
  const Charge& charge = call_.charges[k];
  const ExaminedPair* pair = &pairs_[first_row_of(k)];
  for (const CompiledLimit& each : charge.policy->limits()) {
    const std::optional<FoundRecord> found = value->find(each.tag);
    const ChargedPair charged = overlimit::charge(each.limit, *pair, cost_of(charge));
    std::vector<Cell> cells = cells_after_charge(each.limit, found ? &*found : nullptr, *pair++, charged);
    const Instant expires_at = expiry_with(cells, each.limit, charged);
    after.put({each.tag, expires_at, charged.state, std::move(cells)});
  }
  return after;
}

std::size_t CallOnValues::first_row_of(std::size_t k) const { return pairs_of(call_.charges.first(k)); }

bool CallOnValues::charges(std::size_t k) const {
  const Charge& charge = call_.charges[k];
  return cost_of(charge) > 0 && resolution_.charges(charge.role, verdicts_[k]);
}

std::optional<Lock> CallOnValues::set_lock(std::size_t k) const {
  return lock_after_refusal(resolution_, call_.charges[k], verdicts_[k], locks_[k], keys_[k].now);
}

void CallOnValues::fill_as_charged(const CompiledLimit& each, std::size_t k, Instant created_at,
                                   const Rows& rows, std::size_t row) const {
  const Charge& charge = call_.charges[k];
  const std::optional<FoundRecord> found = keys_[k].value->find(each.tag);
  const FoundRecord* const record = found ? &*found : nullptr;
  const ChargedPair written = overlimit::charge(each.limit, pairs_[row], cost_of(charge));
  const std::vector<Cell> cells = cells_after_charge(each.limit, record, pairs_[row], written);
  fill_charged(each.limit, written.state, keys_[k].now, created_at, rows, row);
  show_holds(each.limit, cells.size(), expiry_with(cells, each.limit, written), written.state, keys_[k].now,
             rows, row);
  if (!charges_unadmitted(charge.role)) return;
  fill_unadmitted(call_, charge, each.limit, record, pairs_[row], written, cost_of(charge), locks_[k],
                  keys_[k].now, rows, row);
}

void CallOnValues::examine_all() {
  pairs_.reserve(pairs_of(call_.charges));
  locks_.reserve(call_.charges.size());
  verdicts_.reserve(call_.charges.size());
  for (std::size_t k = 0; k < call_.charges.size(); ++k) {
    const Charge& charge = call_.charges[k];
    const auto& [value, now] = keys_[k];
    locks_.push_back(value->lock_at(now));
    Status worst = locks_[k] && locks_[k]->holds(now) ? Status::locked : Status::ok;
    for (const CompiledLimit& each : charge.policy->limits()) {
      const std::optional<FoundRecord> found = value->find(each.tag);
      pairs_.push_back(examine(each.limit, found ? &*found : nullptr, now, cost_of(charge), call_.patience));
      worst = std::max(worst, pairs_.back().verdict.status);
    }
    verdicts_.push_back(worst);
  }
}

}  // namespace overlimit::values
