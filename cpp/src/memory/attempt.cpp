#include "memory/attempt.hpp"

#include <algorithm>

namespace overlimit::memory {
namespace {

constexpr std::size_t kPlacesPerCall = 1;
constexpr std::size_t kPlacesPerInsert = 16;
constexpr std::size_t kPlacesWhenFull = 64;
// State of an injected clock is dropped by real time, this long after its last write.
constexpr Micros kInjectedKeep = Micros{3600} * 1'000'000;
// How long somebody is told to wait whom only the company in an overflow cell refuses.
constexpr Micros kCrowdedRetry = 1'000'000;

std::span<const PlannedLimit> limits_of(const Target& target) { return target.charge->plan->limits(); }

// Keys without room of their own share one cell per policy and shard.
KeyHash cell_key(const Target& target) { return {0, target.charge->plan->digest()}; }

// Alone, this cost would have fitted: it is the others in the cell who make it too much for ever.
Verdict crowded(const Examined& pair) {
  return over(pair.standing ? pair.expires_at - pair.now : kCrowdedRetry);
}

Micros next_birth(std::atomic<Micros>& births, Micros now) {
  Micros newest = births.load(std::memory_order_relaxed);
  Micros birth = 0;
  do {
    birth = std::max(now, newest + 1);
  } while (!births.compare_exchange_weak(newest, birth, std::memory_order_relaxed));
  return birth;
}

}  // namespace

void Attempt::run(const Rows& rows, std::atomic<Micros>& births) {
  for (Target& target : targets_) {
    target.shard->sweep(readings_.real_now, target.shard->is_full() ? kPlacesWhenFull : kPlacesPerCall);
  }
  for (Target& target : targets_) locate(target);
  if (targets_.size() > 1) share_costs();
  const bool admitted = examine_all();
  for (Target& target : targets_) {
    if (admitted && mode_ == Mode::consume && target.charge->cost > 0) {
      charge(target, rows, births);
    } else {
      show(target, rows, admitted);
    }
  }
  tidy(admitted);
}

void Attempt::locate(Target& target) {
  target.fresh = target.charged = false;
  target.cost = target.charge->cost;
  target.entry = target.shard->find(target.key);
  if (target.entry == nullptr) target.entry = entry_for_unknown(target);
  if (target.entry != nullptr && !fits(*target.entry, limits_of(target))) {
    target.entry = target.shard->conform(target.entry, limits_of(target), readings_.now);
  }
}

// A new entry starts from its overflow cell, if there is one: what was spent there may have been its own.
Entry* Attempt::entry_for_unknown(Target& target) {
  Shard& shard = *target.shard;
  Entry* cell = shard.overflows() ? shard.find(cell_key(target)) : nullptr;
  if (mode_ == Mode::peek || target.charge->cost == 0) return cell;
  Entry* entry = shard.insert(target.key, limits_of(target), false);
  if (entry == nullptr) return cell != nullptr ? cell : shard.insert(cell_key(target), limits_of(target), true);
  target.fresh = true;
  if (cell != nullptr) shard.copy_records(*entry, *cell);
  return entry;
}

void Attempt::share_costs() {
  for (Target& target : targets_) {
    if (target.entry == nullptr || !target.entry->overflow) continue;
    target.cost = 0;
    for (const Target& other : targets_) {
      if (other.entry == target.entry) target.cost = std::min(kExact, target.cost + other.charge->cost);
    }
  }
}

bool Attempt::examine_all() {
  bool admitted = true;
  for (const Target& target : targets_) {
    const Record* record = target.entry == nullptr ? nullptr : target.entry->begin();
    std::size_t pair = target.first;
    for (const PlannedLimit& planned : limits_of(target)) {
      Examined& examined = examined_[pair++];
      if (record == nullptr) {
        examined = examine(planned.limit, nullptr, readings_.now, target.cost);
      } else {
        const Found found{record->expires_at, record->header, cells_of(target.shard->arena(), *record)};
        examined = examine(planned.limit, &found, readings_.now, target.cost);
        ++record;
      }
      if (target.cost > target.charge->cost && examined.verdict.status == Status::never &&
          target.charge->cost <= most(planned.limit)) {
        examined.verdict = crowded(examined);
      }
      admitted = admitted && examined.verdict.status == Status::ok;
    }
  }
  return admitted;
}

void Attempt::charge(Target& target, const Rows& rows, std::atomic<Micros>& births) {
  Entry& entry = *target.entry;
  if (entry.birth == 0) entry.birth = next_birth(births, readings_.now);
  Record* record = entry.begin();
  std::size_t row = target.first;
  for (const PlannedLimit& planned : limits_of(target)) {
    const Written written = charged(planned.limit, examined_[row], target.cost);
    if (!target.charged) commit(target.shard->arena(), *record, written);
    show_charged(planned.limit, written.header, readings_.now, entry.birth, rows, row);
    ++record;
    ++row;
  }
  entry.sweep_at = readings_.injected ? readings_.real_now + kInjectedKeep : entry.last_expiry();
  if (!entry.overflow) return;
  for (Target& other : targets_) other.charged = other.charged || other.entry == &entry;
}

void Attempt::show(Target& target, const Rows& rows, bool admitted) {
  std::size_t row = target.first;
  for (const PlannedLimit& planned : limits_of(target)) {
    const Examined& pair = examined_[row];
    if (admitted && target.charge->cost > 0) {
      const Written written = charged(planned.limit, pair, target.cost);
      show_charged(planned.limit, written.header, readings_.now, 0, rows, row);
    } else {
      show_standing(planned.limit, pair, rows, row);
    }
    ++row;
  }
}

// Nothing points into the shards any more when entries are dropped.
void Attempt::tidy(bool admitted) {
  for (Target& target : targets_) {
    if (!target.fresh) continue;
    if (!admitted) target.shard->erase(target.entry);
    target.shard->sweep(readings_.real_now, kPlacesPerInsert);
  }
}

}  // namespace overlimit::memory
