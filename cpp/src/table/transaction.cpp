#include "table/transaction.hpp"

#include <algorithm>
#include <vector>

#include "overlimit/errors.hpp"
#include "overlimit/pair.hpp"

namespace overlimit::table {
namespace {

constexpr std::size_t kBucketsPerInsert = 8;
// The retry_after of a charge that is refused only because of others in its overflow entry.
constexpr Duration kCrowdedRetry{1'000'000};

std::span<const CompiledLimit> limits_of(const Target& target) { return target.charge->policy->limits(); }

FoundRecord found_in(const Target& target, const Record& record) {
  return found_record(target.shard->arena(), record);
}

// Keys without an entry of their own share an overflow entry, one per policy and shard. Policies without room
// for that share a common one with those whose limits have the same numbers: a limit that drains faster would
// drain the usage of the others. The lowest byte, which the index ignores, tells the two kinds apart.
KeyHash policy_overflow_key(const CompiledPolicy& policy) {
  return {policy.digest() << 8, std::uint32_t(policy.digest() >> 32)};
}
KeyHash common_overflow_key(const CompiledPolicy& policy) {
  return {policy.limits_digest() << 8 | 1, std::uint32_t(policy.limits_digest() >> 32)};
}

// Alone, this cost would fit; together with the others in the overflow entry it never does.
Verdict crowded(const ExaminedPair& pair) {
  return over(pair.has_record ? pair.expires_at - pair.now : kCrowdedRetry);
}

}  // namespace

Transaction::Transaction(const Call& call, std::span<const KeyedCharge> charges, const Readings& readings,
                         std::atomic<Instant>& newest_creation)
    : call_(call), readings_(readings), newest_creation_(newest_creation), examined_(pairs_of(call.charges)) {
  std::size_t row = 0;
  for (std::size_t i = 0; i < charges.size(); ++i) {
    room_.emplace(i, charges[i], row);
    row += charges[i].charge->policy->size();
  }
  targets_ = {room_.data(), charges.size()};
}

ChargeBits Transaction::decide(const Rows& rows) {
  find_entries();
  for (Target& target : targets_) examine(target);
  const Resolution resolution = resolve(call_, [&](std::size_t i) { return targets_[i].verdict; });
  WriteScope writing(call_.mode == Mode::consume ? targets_ : std::span<Target>());
  for (Target& target : targets_) {
    if (cost_of(*target.charge) == 0 || !resolution.charges(target.charge->role, target.verdict)) {
      refuse(target, resolution, rows);
    } else if (call_.mode == Mode::peek) {
      show_charged(target, rows);
    } else {
      charge(target, rows);
    }
  }
  writing.complete();
  if (has_fresh_) clean_up();
  return call_.mode == Mode::consume ? crowded_ : 0;
}

void Transaction::sweep_if_full() {
  for (Target& target : targets_) {
    if (target.shard->is_full()) target.shard->sweep(readings_.real_now, target.shard->buckets_when_full());
  }
}

// Where all keys are known under these limits, nothing is changed on the way.
void Transaction::find_entries() {
  const auto is_known = [this](Target& target) { return find_known_entry(target); };
  if (std::ranges::all_of(targets_, is_known)) return;
  sweep_if_full();
  for (Target& target : targets_) find_entry(target);
  if (targets_.size() > 1) share_costs();
}

bool Transaction::find_known_entry(Target& target) {
  target.cost = cost_of(*target.charge);
  target.entry = target.shard->find(target.key);
  const CompiledPolicy& policy = *target.charge->policy;
  if (target.entry == nullptr || !starts_with(*target.entry, policy.tags())) return false;
  find_lock(target, policy.size());
  return true;
}

void Transaction::find_entry(Target& target) {
  target.cost = cost_of(*target.charge);
  target.entry = target.shard->find(target.key);
  if (target.entry == nullptr) target.entry = entry_for_new_key(target);
  if (target.entry != nullptr && !starts_with(*target.entry, target.charge->policy->tags())) {
    target.entry = target.shard->with_records(target.entry, target.charge->policy->tags(), readings_.now);
  }
  find_lock(target, target.charge->policy->size());
}

// A key in an overflow entry is not locked because of others in it.
void Transaction::find_lock(Target& target, std::size_t first_record) {
  target.lock_record = nullptr;
  target.lock.reset();
  if (target.entry == nullptr) return;
  if (target.entry->is_overflow()) {
    crowded_ |= ChargeBits{1} << (&target - targets_.data());
    return;
  }
  target.lock_record = target.entry->find(kLockTag, first_record);
  if (target.lock_record == nullptr) return;
  target.lock = remembered_lock(target.lock_record->expires_at, target.lock_record->header, readings_.now);
}

// A peek makes an entry as a hit does, and erases it afterwards.
Entry* Transaction::entry_for_new_key(Target& target) {
  const CompiledPolicy& policy = *target.charge->policy;
  Entry* const overflow = overflow_entry_for(target);
  if (target.cost == 0) return overflow;
  if (Entry* own = start_entry(target, {target.key, policy.digest()}, Arena::Purpose::ordinary, overflow))
    return own;
  if (overflow != nullptr &&
      (overflow->policy() == policy.digest() || is_shared_by_another(target, *overflow)))
    return overflow;
  const Holder shared{policy_overflow_key(policy), policy.digest()};
  if (Entry* made = start_entry(target, shared, Arena::Purpose::policy_overflow, overflow)) return made;
  if (overflow != nullptr) return overflow;
  Entry* common =
      start_entry(target, {common_overflow_key(policy), kNoPolicy}, Arena::Purpose::common_overflow, nullptr);
  if (common == nullptr) throw OutOfMemory("no room for a single count: raise max_bytes");
  return common;
}

// The overflow entry that the keys of a policy without room of their own are charged to.
Entry* Transaction::overflow_entry_for(const Target& target) {
  if (!target.shard->has_overflow_entries()) return nullptr;
  Entry* const overflow = target.shard->find(policy_overflow_key(*target.charge->policy));
  return overflow != nullptr ? overflow : target.shard->find(common_overflow_key(*target.charge->policy));
}

// Whether another key of the policy is charged there in this call, which an entry made now would miss.
bool Transaction::is_shared_by_another(const Target& target, const Entry& overflow) const {
  return std::ranges::any_of(targets_, [&](const Target& other) {
    return other.entry == &overflow && other.charge->policy->digest() == target.charge->policy->digest();
  });
}

// A new entry starts as a copy of the overflow entry used until now: what was charged there may have been its
// own.
Entry* Transaction::start_entry(Target& target, const Holder& holder, Arena::Purpose purpose,
                                Entry* overflow) {
  Entry* entry = target.shard->insert(holder.key, holder.policy, target.charge->policy->tags(), purpose);
  if (entry == nullptr) return nullptr;
  target.fresh = true;
  has_fresh_ = true;
  if (overflow != nullptr) target.shard->copy_records(*entry, *overflow);
  return entry;
}

void Transaction::share_costs() {
  for (Target& target : targets_) {
    if (target.entry == nullptr || !target.entry->is_overflow()) continue;
    target.cost = 0;
    for (const Target& other : targets_) {
      if (other.entry != target.entry) continue;
      target.cost = std::min(kExact, target.cost + std::min(kExact, cost_of(*other.charge)));
    }
  }
}

void Transaction::examine(Target& target) {
  const bool is_locked = target.lock && target.lock->holds(readings_.now);
  Status verdict = is_locked ? Status::locked : Status::ok;
  ExaminedPair* examined = &examined_[target.first];
  const Record* record = target.entry == nullptr ? nullptr : target.entry->begin();
  for (const CompiledLimit& each : limits_of(target)) {
    const FoundRecord found = record == nullptr ? FoundRecord{} : found_in(target, *record++);
    *examined = overlimit::examine(each.limit, &found, readings_.now, target.cost, call_.patience);
    if (target.cost > cost_of(*target.charge)) judge_crowd(target, each.limit, *examined);
    verdict = std::max(verdict, examined->verdict.status);
    ++examined;
  }
  target.verdict = verdict;
}

void Transaction::judge_crowd(const Target& target, const Limit& limit, ExaminedPair& examined) {
  if (examined.verdict.status != Status::never || cost_of(*target.charge) > most(limit)) return;
  examined.verdict = crowded(examined);
}

// Fills the rows of a target as charged, and calls write(record, after, expires_at) for each record.
template <class Write>
void Transaction::charge_pairs(const Target& target, Instant created_at, const Rows& rows,
                               const Write& write) {
  Record* record = target.entry == nullptr ? nullptr : target.entry->begin();
  std::size_t row = target.first;
  for (const CompiledLimit& each : limits_of(target)) {
    const auto fill_and_write = [&](const auto& after, Instant expires_at) {
      if (charges_unadmitted(target.charge->role)) fill_as_unadmitted(target, each.limit, rows, row);
      write(record, after, expires_at);
    };
    with_algorithm(each.limit, [&](const auto& limited) {
      detail::charge_and_fill(limited, examined_[row], target.cost, readings_.now, created_at, rows, row,
                              fill_and_write);
    });
    if (record != nullptr) ++record;
    ++row;
  }
}

void Transaction::charge(Target& target, const Rows& rows) {
  begin_charge(target);
  Shard& shard = *target.shard;
  charge_pairs(target, target.entry->created_at(), rows,
               [&](Record* record, const auto& after, Instant expires_at) {
                 if (!target.charged) commit(shard.arena(), shard.log(), *record, after, expires_at);
               });
  end_charge(target);
}

void Transaction::begin_charge(Target& target) {
  Entry& entry = *target.entry;
  if (!target.charged) target.shard->save(entry, target.charge->policy->size());
  date_creation(entry, readings_, newest_creation_);
}

void Transaction::end_charge(Target& target) {
  set_sweep_time(*target.entry, readings_);
  target.shard->written(*target.entry);
  mark_charged(target);
}

// All targets that share an overflow entry are charged with the first of them.
void Transaction::mark_charged(Target& target) {
  target.charged = true;
  if (!target.entry->is_overflow()) return;
  for (Target& other : targets_) other.charged = other.charged || other.entry == target.entry;
}

void Transaction::show_charged(const Target& target, const Rows& rows) {
  charge_pairs(target, {}, rows, [](Record*, const auto&, Instant) {});
}

void Transaction::fill_as_unadmitted(const Target& target, const Limit& limit, const Rows& rows,
                                     std::size_t row) {
  const ChargedPair written = overlimit::charge(limit, examined_[row], target.cost);
  const FoundRecord found =
      target.entry == nullptr ? FoundRecord{} : found_in(target, target.entry->begin()[row - target.first]);
  fill_unadmitted(call_, *target.charge, limit, &found, examined_[row], written, target.cost, target.lock,
                  readings_.now, rows, row);
}

void Transaction::refuse(Target& target, const Resolution& resolution, const Rows& rows) {
  auto set = lock_after_refusal(resolution, *target.charge, target.verdict, target.lock, readings_.now);
  if (target.lock_record == nullptr) set.reset();
  const std::optional<Lock>& lock = set ? set : target.lock;
  std::size_t row = target.first;
  for (const CompiledLimit& each : limits_of(target)) {
    fill_refused(each.limit, examined_[row], target.verdict, lock, readings_.now, rows, row);
    ++row;
  }
  if (set && call_.mode == Mode::consume) write_lock(target, *set);
}

void Transaction::write_lock(Target& target, const Lock& lock) {
  target.shard->save(*target.entry, 0);
  target.shard->save(*target.lock_record);
  date_creation(*target.entry, readings_, newest_creation_);
  target.lock_record->header = header_of(lock);
  target.lock_record->expires_at = lock.expires_at;
  set_sweep_time(*target.entry, readings_);
  target.shard->written(*target.entry);
  mark_charged(target);
}

Entry* Transaction::charged_entry(const Target& target, Instant created_at) {
  const CompiledPolicy& policy = *target.charge->policy;
  for (const KeyHash& key : {target.key, policy_overflow_key(policy), common_overflow_key(policy)}) {
    Entry* const entry = target.shard->find(key);
    if (entry != nullptr && entry->created_at() == created_at) return entry;
  }
  return nullptr;
}

void Transaction::refund(std::span<const Receipt> receipts) {
  for (Target& target : targets_) {
    const Instant created_at = receipts[target.first].created_at;
    target.cost = cost_of(*target.charge);
    target.entry = created_at == Instant{} ? nullptr : charged_entry(target, created_at);
  }
  share_costs();
  WriteScope writing(targets_);
  for (Target& target : targets_) {
    if (target.entry != nullptr && !target.charged) refund_target(target, receipts);
  }
  writing.complete();
}

void Transaction::show(const Call& peek, const Rows& rows) {
  std::vector<KeyedCharge> charges;
  for (std::size_t i = 0; i < targets_.size(); ++i) {
    charges.push_back({&peek.charges[i], targets_[i].key, targets_[i].shard});
  }
  Transaction(peek, charges, readings_, newest_creation_).decide(rows);
}

void Transaction::refund_target(Target& target, std::span<const Receipt> receipts) {
  Shard& shard = *target.shard;
  shard.save(*target.entry, 0);
  std::size_t pair = target.first;
  for (const CompiledLimit& each : limits_of(target)) {
    const Receipt& receipt = receipts[pair++];
    Record* const record = target.entry->find(each.tag);
    if (record == nullptr) continue;
    const auto left =
        overlimit::refund(each.limit, found_in(target, *record), receipt.after, readings_.now, target.cost);
    if (!left) continue;
    shard.save(*record);
    commit(shard.arena(), shard.log(), *record, *left);
  }
  shard.written(*target.entry);
  mark_charged(target);
}

void Transaction::lock(Duration duration) {
  sweep_if_full();
  for (Target& target : targets_) {
    const CompiledPolicy& policy = *target.charge->policy;
    target.cost = 1;
    target.entry = target.shard->find(target.key);
    if (target.entry == nullptr) target.entry = entry_for_new_key(target);
    if (target.entry->is_overflow()) {
      clean_up();
      throw OutOfMemory("no room to lock another identifier: raise max_keys or max_bytes");
    }
    std::vector<Tag> tags(policy.tags().begin(), policy.tags().end());
    if (policy.penalty() == nullptr) tags.push_back(kLockTag);
    if (!starts_with(*target.entry, tags))
      target.entry = target.shard->with_records(target.entry, tags, readings_.now);
    find_lock(target, policy.size());
  }
  WriteScope writing(targets_);
  for (Target& target : targets_) {
    write_lock(target, locked_by_hand(target.lock, readings_.now, duration));
  }
  writing.complete();
}

// A lock that ends now keeps its level, which is remembered for as long as before. The entry may have been
// written under other limits, so that the lock may be anywhere in it.
void Transaction::unlock() {
  for (Target& target : targets_) {
    target.entry = target.shard->find(target.key);
    if (target.entry == nullptr) continue;
    find_lock(target, 0);
  }
  WriteScope writing(targets_);
  for (Target& target : targets_) {
    if (!target.lock) continue;
    write_lock(target, locked_by_hand(target.lock, readings_.now, Duration{}));
  }
  writing.complete();
}

// A sweep may erase any entry, so it runs when nothing points into the shards any more.
void Transaction::clean_up() {
  for (Target& target : targets_) {
    if (target.fresh && !target.charged) target.shard->erase(target.entry);
  }
  for (Target& target : targets_) {
    if (target.fresh) target.shard->sweep(readings_.real_now, kBucketsPerInsert);
  }
}

}  // namespace overlimit::table
