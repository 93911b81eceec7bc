#include "memory/attempt.hpp"

#include <algorithm>

#include "overlimit/settlement.hpp"

namespace overlimit::memory {
namespace {

constexpr std::size_t kPlacesPerCall = 1;
constexpr std::size_t kPlacesPerInsert = 16;
// State of an injected clock is dropped by real time, this long after its last write.
constexpr Micros kInjectedKeep = Micros{3600} * 1'000'000;
// How long somebody is told to wait whom only the company in an overflow cell refuses.
constexpr Micros kCrowdedRetry = 1'000'000;

std::span<const PlannedLimit> limits_of(const Target& target) { return target.charge->plan->limits(); }

Found found_in(const Target& target, const Record& record) {
  return {record.expires_at, record.header, cells_of(target.shard->arena(), record)};
}

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
    target.shard->sweep(readings_.real_now,
                        target.shard->is_full() ? target.shard->places_when_full() : kPlacesPerCall);
  }
  for (Target& target : targets_) locate(target);
  if (targets_.size() > 1) share_costs();
  examine_all();
  const Settlement settlement = settle(call_.charges, [&](std::size_t i) { return targets_[i].verdict; });
  for (Target& target : targets_) {
    if (asked_by(*target.charge) == 0 || !settlement.charges(target.charge->role, target.verdict)) {
      show_as_found(target, rows);
    } else if (call_.mode == Mode::peek) {
      std::size_t row = target.first;
      for (const PlannedLimit& planned : limits_of(target))
        show_as_charged(target, planned.limit, rows, row++, 0);
    } else {
      charge(target, rows, births);
    }
  }
  tidy();
}

void Attempt::locate(Target& target) {
  target.fresh = target.charged = false;
  target.cost = asked_by(*target.charge);
  target.entry = target.shard->find(target.key);
  if (target.entry == nullptr) target.entry = entry_for_unknown(target);
  if (target.entry != nullptr && !fits(*target.entry, limits_of(target))) {
    target.entry = target.shard->conform(target.entry, limits_of(target), readings_.now);
  }
}

// A new entry starts from its overflow cell, if there is one: what was spent there may have been its own.
// A peek finds room as a hit would, and gives it back.
Entry* Attempt::entry_for_unknown(Target& target) {
  Shard& shard = *target.shard;
  Entry* cell = shard.overflows() ? shard.find(cell_key(target)) : nullptr;
  if (target.cost == 0) return cell;
  Entry* entry = shard.insert(target.key, limits_of(target), false);
  if (entry == nullptr)
    return cell != nullptr ? cell : shard.insert(cell_key(target), limits_of(target), true);
  target.fresh = true;
  if (cell != nullptr) shard.copy_records(*entry, *cell);
  return entry;
}

void Attempt::share_costs() {
  for (Target& target : targets_) {
    if (target.entry == nullptr || !target.entry->overflow) continue;
    target.cost = 0;
    for (const Target& other : targets_) {
      if (other.entry != target.entry) continue;
      target.cost = std::min(kExact, target.cost + std::min(kExact, asked_by(*other.charge)));
    }
  }
}

void Attempt::examine_all() {
  for (Target& target : targets_) {
    const Cost asked = asked_by(*target.charge);
    const Record* record = target.entry == nullptr ? nullptr : target.entry->begin();
    std::size_t pair = target.first;
    target.verdict = Status::ok;
    for (const PlannedLimit& planned : limits_of(target)) {
      Examined& examined = examined_[pair++];
      if (record == nullptr) {
        examined = examine(planned.limit, nullptr, readings_.now, target.cost);
      } else {
        const Found found = found_in(target, *record++);
        examined = examine(planned.limit, &found, readings_.now, target.cost);
      }
      if (target.cost > asked && examined.verdict.status == Status::never && asked <= most(planned.limit)) {
        examined.verdict = crowded(examined);
      }
      target.verdict = std::max(target.verdict, examined.verdict.status);
    }
  }
}

void Attempt::charge(Target& target, const Rows& rows, std::atomic<Micros>& births) {
  Entry& entry = *target.entry;
  if (entry.birth == 0) entry.birth = next_birth(births, readings_.now);
  Record* record = entry.begin();
  std::size_t row = target.first;
  for (const PlannedLimit& planned : limits_of(target)) {
    const Written written = show_as_charged(target, planned.limit, rows, row++, entry.birth);
    if (!target.charged) commit(target.shard->arena(), *record, written);
    ++record;
  }
  entry.sweep_at = readings_.injected ? readings_.real_now + kInjectedKeep : entry.last_expiry();
  target.charged = true;
  if (!entry.overflow) return;
  for (Target& other : targets_) other.charged = other.charged || other.entry == &entry;
}

Written Attempt::show_as_charged(const Target& target, const Limit& limit, const Rows& rows, std::size_t row,
                                 Micros birth) {
  const Written written = charged(limit, examined_[row], target.cost);
  show_charged(limit, written.header, readings_.now, birth, rows, row);
  if (target.charge->role == Role::on_refusal) {
    const Found found =
        target.entry == nullptr ? Found{} : found_in(target, target.entry->begin()[row - target.first]);
    rows.retry_after[row] = retry_after_charge(limit, &found, examined_[row], written, target.cost);
  }
  return written;
}

void Attempt::show_as_found(const Target& target, const Rows& rows) {
  std::size_t row = target.first;
  for (const PlannedLimit& planned : limits_of(target)) {
    show_standing(planned.limit, examined_[row], rows, row);
    ++row;
  }
}

// A sweep may drop any entry, so that it comes when nothing points into the shards any more.
void Attempt::tidy() {
  for (Target& target : targets_) {
    if (target.fresh && !target.charged) target.shard->erase(target.entry);
  }
  for (Target& target : targets_) {
    if (target.fresh) target.shard->sweep(readings_.real_now, kPlacesPerInsert);
  }
}

}  // namespace overlimit::memory
