#include "redis/cross_slot/split_call.hpp"

#include <algorithm>
#include <mutex>

#include "overlimit/errors.hpp"
#include "overlimit/pair.hpp"

namespace overlimit::redis {
namespace {

CallPart& part_at(std::vector<CallPart>& parts, protocol::Slot slot) {
  const auto known = std::ranges::find(parts, slot, &CallPart::slot);
  return known != parts.end() ? *known : parts.emplace_back(CallPart{slot, {}, {}});
}

/// What a limit grants without a charge of this cost, after which its record is this and it grants
/// `remaining`.
std::int64_t remaining_without(const Limit& limit, const Header& after, Cost cost, std::int64_t remaining) {
  return with_algorithm(limit, [&](const auto& limited) -> std::int64_t {
    // One in debt grants nothing, however much it owes.
    if constexpr (requires { holds_leases(limited); }) {
      using State = typename std::decay_t<decltype(limited)>::State;
      return overlimit::remaining(limited, without_charge(limited, state_from<State>(after), cost), {});
    } else {
      return remaining + cost;
    }
  });
}

/// Calls action(charge, its first row in the part, how many rows it has).
void for_each_charge(const CallPart& part, const auto& action) {
  std::size_t row = 0;
  for (const Charge& charge : part.charges) {
    action(charge, row, charge.policy->size());
    row += charge.policy->size();
  }
}

/// Throws CrossSlot unless all charges have roles that each slot can resolve alone.
void check_splits(std::span<const Charge> charges) {
  const bool are_settled_alone = std::ranges::all_of(charges, [](const Charge& charge) {
    return charge.role == Role::enforce || charge.role == Role::always;
  });
  if (are_settled_alone) return;
  throw CrossSlot(
      "a call with a shadow limit or an on_refusal limit cannot be decided across slots of a redis cluster, "
      "as what it charges depends on all slots at once; give the store hash_tag=\"prefix\", in a URL "
      "?hash_tag=prefix, or hash_tag=\"policy\" for calls of a single policy");
}

}  // namespace

std::vector<const Charge*> CallPart::refusing() const {
  std::vector<const Charge*> refusing;
  for_each_charge(*this, [&](const Charge& charge, std::size_t row, std::size_t count) {
    const std::span verdicts(rows.status + row, count);
    const auto refuses = [](Status each) { return each != Status::ok; };
    if (charge.role == Role::enforce && std::ranges::any_of(verdicts, refuses)) refusing.push_back(&charge);
  });
  return refusing;
}

SplitCall::SplitCall(const Call& call, std::span<const protocol::Slot> slots,
                     const std::function<bool(const Charge&)>& goes_first)
    : call_(call), memory_(std::make_unique_for_overwrite<std::byte[]>(kRowBytes * pairs_of(call.charges))) {
  check_splits(call.charges);
  std::size_t row = 0;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    CallPart& part = part_at(parts_, slots[i]);
    part.charges.push_back(call.charges[i]);
    part.first_rows.push_back(row);
    row += call.charges[i].policy->size();
  }
  const auto leads = [&](const CallPart& part) { return std::ranges::any_of(part.charges, goes_first); };
  const auto others = std::stable_partition(parts_.begin(), parts_.end(), leads);
  leading_ = others == parts_.begin() ? parts_.size() : std::size_t(others - parts_.begin());
  rows_ = rows_at(memory_.get(), row);
  std::size_t first = 0;
  for (CallPart& part : parts_) {
    part.rows = rows_of(rows_, first, pairs_of(part.charges));
    first += part.rows.count;
  }
}

Call SplitCall::call_of(const CallPart& part) const {
  Call call = call_;
  call.charges = part.charges;
  return call;
}

std::vector<Call> SplitCall::calls(std::size_t first, std::size_t charged) const {
  std::vector<Call> calls;
  for (std::size_t i = first; i < parts_.size(); ++i) {
    Call& call = calls.emplace_back(call_of(parts_[i]));
    if (i >= charged) call.mode = Mode::peek;
  }
  return calls;
}

bool SplitCall::admits() const { return std::ranges::all_of(parts_, &CallPart::admits); }

std::vector<const Charge*> SplitCall::refusing() const {
  std::vector<const Charge*> all;
  for (const CallPart& part : parts_) std::ranges::copy(part.refusing(), std::back_inserter(all));
  return all;
}

// When the record is as if never seen is not worked out again: at the latest then.
void SplitCall::show_uncharged() {
  for (CallPart& part : parts_) {
    if (!part.admits()) continue;
    for_each_charge(part, [&](const Charge& charge, std::size_t first, std::size_t count) {
      for (std::size_t i = 0; i < count; ++i) {
        const std::size_t row = first + i;
        std::int64_t& remaining = part.rows.remaining[row];
        if (charge.role == Role::enforce && cost_of(charge) > 0) {
          const Limit& limit = charge.policy->limits()[i].limit;
          remaining = remaining_without(limit, part.rows.receipt[row].after, cost_of(charge), remaining);
        }
        part.rows.delay[row] = {};
        part.rows.receipt[row] = {};
      }
    });
  }
}

void SplitCall::set_receipts(std::span<const Receipt> receipts) {
  for (CallPart& part : parts_) {
    std::size_t i = 0;
    for_each_charge(part, [&](const Charge&, std::size_t row, std::size_t count) {
      std::ranges::copy(receipts.subspan(part.first_rows[i++], count), part.rows.receipt + row);
    });
  }
}

void SplitCall::copy_rows(const Rows& to) const {
  for (const CallPart& part : parts_) {
    std::size_t i = 0;
    for_each_charge(part, [&](const Charge&, std::size_t row, std::size_t count) {
      overlimit::copy_rows(rows_of(part.rows, row, count), rows_of(to, part.first_rows[i++], count));
    });
  }
}

void RecentRefusals::note(std::string key) {
  const std::lock_guard lock(mutex_);
  const Clock::time_point now = Clock::now();
  if (refused_at_.size() >= kMost) forget_old(now);
  if (refused_at_.size() < kMost) refused_at_.insert_or_assign(std::move(key), now);
}

// Not for every key of a flood of others.
void RecentRefusals::forget_old(Clock::time_point now) {
  if (now - looked_at_ <= kRecent) return;
  looked_at_ = now;
  std::erase_if(refused_at_, [now](const auto& each) { return now - each.second > kRecent; });
}

bool RecentRefusals::has(std::string_view key) {
  const std::lock_guard lock(mutex_);
  const auto known = refused_at_.find(key);
  return known != refused_at_.end() && Clock::now() - known->second <= kRecent;
}

}  // namespace overlimit::redis
