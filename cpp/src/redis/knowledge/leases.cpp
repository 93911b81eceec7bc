#include "redis/knowledge/leases.hpp"

#include <algorithm>
#include <mutex>

#include "redis/knowledge/place.hpp"

namespace overlimit::redis {
namespace {

/// How often keys that are no longer asked for are looked for.
constexpr Duration kPauseBetweenLooks{100'000};
/// Commands that follow each other faster tell nothing of a rate.
constexpr Duration kShortest{100};
/// Who asks for units and does not come back, which only happens with errors, is waited for so long.
constexpr Duration kRefill{100'000};

std::vector<Lease::Row> rows_of_lease(const Charge& charge, Instant shown, const Rows& rows) {
  std::vector<Lease::Row> own;
  for (std::size_t i = 0; i < charge.policy->size(); ++i) {
    own.push_back({rows.remaining[i], shown + rows.reset_after[i], rows.receipt[i]});
  }
  return own;
}

}  // namespace

Lease::Lease(const Charge& charge, const ServerReading& told, Duration ends_at, const Rows& rows, Cost units)
    : policy_(*charge.policy),
      identifier_(charge.identifier),
      told_(told),
      ends_at_(ends_at),
      rows_(rows_of_lease(charge, told.shown, rows)),
      granted_(units),
      units_(units) {}

bool Lease::take(Cost units, Cost& left) {
  left = units_.load(std::memory_order_acquire);
  while (left >= units) {
    if (units_.compare_exchange_weak(left, left - units, std::memory_order_acq_rel)) {
      left -= units;
      return true;
    }
  }
  return false;
}

bool Lease::is_charged_by(std::span<const Receipt> receipts) const {
  return std::ranges::equal(rows_, receipts, [](const Row& row, const Receipt& receipt) {
    return row.receipt.created_at == receipt.created_at && row.receipt.after == receipt.after;
  });
}

void Lease::show(Instant time, Cost left, const Rows& rows) const {
  const Cost besides = besides_.load(std::memory_order_relaxed);
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    rows.status[i] = Status::ok;
    rows.remaining[i] = std::max<Cost>(0, rows_[i].remaining - besides) + left;
    rows.retry_after[i] = {};
    rows.reset_after[i] = max(Duration{}, rows_[i].gone_at - time);
    rows.delay[i] = {};
    rows.receipt[i] = rows_[i].receipt;
  }
}

void Lease::show_refused(Instant time, Duration retry_after, const Rows& rows) const {
  show(time, 0, rows);
  std::fill_n(rows.receipt, rows_.size(), Receipt{});
  rows.status[0] = Status::over;
  rows.remaining[0] = 0;
  rows.retry_after[0] = retry_after;
}

std::vector<Receipt> Lease::receipts() const {
  std::vector<Receipt> receipts;
  for (const Row& row : rows_) receipts.push_back(row.receipt);
  return receipts;
}

std::shared_ptr<Leases> Leases::of(const Location& location, const RedisStore::Keys& keys) {
  return of_place<Leases>(location, keys);
}

std::shared_ptr<Lease> Leases::find(const Charge& charge) {
  const std::lock_guard lock(mutex_);
  const auto known = keys_.find(name_of(charge));
  return known == keys_.end() ? nullptr : known->second.lease;
}

Duration Leases::next_turn(const Charge& charge) {
  const std::lock_guard lock(mutex_);
  const auto known = keys_.find(name_of(charge));
  return known == keys_.end() || !takes_turns(known->second, charge) ? Duration{} : known->second.next_turn;
}

// A dear call that was refused says nothing of cheaper ones, nor of those under other limits.
bool Leases::takes_turns(const Key& key, const Charge& charge) {
  return key.turns_from > 0 && charge.cost >= key.turns_from &&
         charge.policy->limits_digest() == key.turns_under;
}

// What is spent in a life at the rate since the last command; 0 for a rare key, or while somebody else asks.
Cost Leases::wanted_of(const Key& key, const Charge& charge, Duration life, Duration now, bool is_dear) {
  if (now < key.refilled_by) return 0;
  const Cost spent = key.asked + (key.lease ? key.lease->spent() : 0);
  const Duration since = max(kShortest, now - key.asked_at);
  Cost wanted = multiply_divide(spent, life.micros(), since.micros(), 0);
  if (is_dear) wanted = std::min(wanted, std::max(sum(key.in_life, spent), key.before));
  return wanted < 2 * charge.cost ? 0 : std::min(wanted, kExact / 8 - charge.cost);
}

bool Leases::is_wanted(const Charge& charge, Duration life, Duration now, bool is_dear) {
  const std::lock_guard lock(mutex_);
  const auto known = keys_.find(name_of(charge));
  return known != keys_.end() && wanted_of(known->second, charge, life, now, is_dear) > 0;
}

// Adds what was spent since the last command to the present time of a life.
void Leases::count_spent(Key& key, Duration life, Duration now) {
  key.in_life = sum(key.in_life, key.asked);
  if (now - key.life_began < life) return;
  key.before = now - key.life_began < 2 * life ? key.in_life : 0;
  key.in_life = 0;
  key.life_began = now;
}

Cost Leases::ask(const Charge& charge, Duration life, Duration now, bool is_dear) {
  const std::lock_guard lock(mutex_);
  const auto known = keys_.find(name_of(charge));
  if (known == keys_.end()) return 0;
  Key& key = known->second;
  const Cost wanted = wanted_of(key, charge, life, now, is_dear);
  if (key.lease && (wanted > 0 || !key.lease->covers(charge))) end(key);
  if (wanted == 0) return 0;
  key.refilled_by = now + kRefill;
  if (takes_turns(key, charge)) key.next_turn = now + life;
  return wanted;
}

void Leases::answered(const Charge& charge, std::shared_ptr<Lease> lease, Duration asked_at, Cost wanted,
                      bool is_refused, Duration rare_from, std::uint32_t endings) {
  const std::lock_guard lock(mutex_);
  // What was under way while leases were ended has ended, too.
  if (lease != nullptr && (endings != endings_.load() || changes_.load() > 0))
    give_back_later(std::exchange(lease, nullptr), {});
  Key* const key = key_for(charge, asked_at);
  if (key == nullptr) {
    if (lease != nullptr) give_back_later(std::move(lease), {});
    return;
  }
  if (wanted == 0 && key->lease != nullptr) {
    key->asked += is_refused ? 0 : charge.cost;
    return;
  }
  count_spent(*key, rare_from - asked_at, asked_at);
  key->asked_at = asked_at;
  key->rare_from = rare_from;
  key->asked = is_refused ? 0 : charge.cost;
  if (wanted == 0) return;
  key->refilled_by = {};
  note_turn(*key, charge, is_refused);
  key->next_turn = rare_from;
  if (key->lease) end(*key);
  if (!lease) return;
  give_back_later(lease, lease->ends_at());
  key->lease = std::move(lease);
}

// Who was refused takes turns until it is granted something. If it were until it is granted all that it
// wanted, up to a tenth of what the limit admits would be left.
void Leases::note_turn(Key& key, const Charge& charge, bool is_refused) {
  if (!is_refused) {
    key.turns_from = 0;
    return;
  }
  if (!takes_turns(key, charge)) key.turns_from = charge.cost;
  key.turns_under = charge.policy->limits_digest();
}

// The key of a charge, which is made; nullptr if there is no room.
Leases::Key* Leases::key_for(const Charge& charge, Duration now) {
  if (const auto known = keys_.find(name_of(charge)); known != keys_.end()) return &known->second;
  if (keys_.size() >= kMostKeys) forget_old(now);
  if (keys_.size() >= kMostKeys) return nullptr;
  return &keys_.emplace(OwnName{charge.policy->name(), std::string(charge.identifier)}, Key{}).first->second;
}

void Leases::make_way(const Charge& charge) {
  const std::lock_guard lock(mutex_);
  const auto known = keys_.find(name_of(charge));
  if (known == keys_.end() || known->second.lease == nullptr) return;
  if (!known->second.lease->covers(charge)) end(known->second);
}

void Leases::end(std::string_view policy, std::string_view identifier, bool gives_back) {
  const std::lock_guard lock(mutex_);
  endings_.fetch_add(1);
  if (!gives_back) {
    let_lapse([&](const Charge& charge) { return name_of(charge) == Name{policy, identifier}; });
  }
  const auto known = keys_.find(Name{policy, identifier});
  if (known == keys_.end()) return;
  if (known->second.lease && gives_back) end(known->second);
  keys_.erase(known);
}

void Leases::end_all(std::string_view policy, bool gives_back) {
  const std::lock_guard lock(mutex_);
  endings_.fetch_add(1);
  if (!gives_back) let_lapse([&](const Charge& charge) { return charge.policy->name() == policy; });
  for (auto each = keys_.begin(); each != keys_.end();) {
    if (each->first.policy == policy) {
      if (each->second.lease && gives_back) end(each->second);
      each = keys_.erase(each);
    } else {
      ++each;
    }
  }
}

void Leases::end_all() {
  const std::lock_guard lock(mutex_);
  endings_.fetch_add(1);
  for (auto& [name, key] : keys_) {
    if (key.lease) end(key);
  }
  keys_.clear();
}

// It is found no more; whoever has found it already may still spend of it, as of one that has just ended.
void Leases::end(Key& key) {
  key.asked = sum(key.asked, key.lease->spent());
  give_back_later(std::exchange(key.lease, nullptr), Duration{});
}

// Those that have ended before, too: somebody may have found one while it lived.
void Leases::let_lapse(const auto& is_lost) {
  std::erase_if(to_give_back_, [&](const auto& each) {
    const Charge charge = each.second->charge_of(0);
    if (!is_lost(charge)) return false;
    counts_[charge.policy->name()].lapsed += std::uint64_t(each.second->take_rest());
    return true;
  });
}

void Leases::give_back_later(std::shared_ptr<Lease> lease, Duration at) {
  const auto known = std::ranges::find(to_give_back_, lease, &decltype(to_give_back_)::value_type::second);
  if (known != to_give_back_.end()) {
    known->first = at;
  } else {
    to_give_back_.emplace_back(at, std::move(lease));
  }
  next_end_.store(std::min(next_end_.load(), at.micros()));
}

std::vector<Leases::Return> Leases::take_ended(Duration now) {
  const std::lock_guard lock(mutex_);
  std::vector<Return> ended;
  Duration next{INT64_MAX};
  std::erase_if(to_give_back_, [&](auto& each) {
    auto& [at, lease] = each;
    if (at > now) {
      next = min(next, at);
      return false;
    }
    if (const Cost rest = lease->take_rest(); rest > 0) ended.push_back({lease, rest});
    return true;
  });
  next_end_.store(next.micros());
  return ended;
}

void Leases::note_given_back(const Charge& charge, Cost units, bool has_arrived) {
  const std::lock_guard lock(mutex_);
  Counts& counts = counts_[charge.policy->name()];
  (has_arrived ? counts.returned : counts.lapsed) += std::uint64_t(units);
}

Leases::Counts Leases::counts(const PolicyIdentity& policy) {
  const std::lock_guard lock(mutex_);
  Counts counts;
  if (const auto known = counts_.find(policy.name()); known != counts_.end()) counts = known->second;
  for (const auto& [at, lease] : to_give_back_) {
    if (lease->charge_of(0).policy->name() == policy.name()) counts.held += std::uint64_t(lease->left());
  }
  return counts;
}

// Not for every key of a flood of others.
void Leases::forget_old(Duration now) {
  if (now - looked_at_ < kPauseBetweenLooks) return;
  looked_at_ = now;
  for (auto each = keys_.begin(); each != keys_.end();) {
    Key& key = each->second;
    if (now > key.rare_from) {
      if (key.lease) end(key);
      each = keys_.erase(each);
    } else {
      ++each;
    }
  }
}

}  // namespace overlimit::redis
