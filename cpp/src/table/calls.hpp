// What every call on a table goes through: from its charges to their shards, locked, and to its instant.
#pragma once

#include "overlimit/call.hpp"
#include "table/table.hpp"
#include "table/transaction.hpp"

namespace overlimit::table {

// Inlined because every hit counts. Read under the locks: of two calls on one key the later one is later.
[[gnu::always_inline]] inline Readings readings_of(const Call& call) {
  if (call.clock == nullptr && !call.now) {
    const Instant now = system_now();
    return {now, now, false};
  }
  const Instant now = *call.reading();
  return {now, call.system_clock ? now : system_now(), !call.system_clock};
}

/// Calls action(readings) while the shards of these charges, or their one shard, are locked, and returns the
/// call's instant.
template <class Chosen, class Action>
[[gnu::always_inline]] inline Instant under_lock(Table& table, Chosen& chosen,
                                                 std::span<const KeyedCharge> charges, const Call& call,
                                                 MutexWait& wait, const Action& action) {
  table.recount_if_due(wait);
  Readings readings;
  bool is_sweep_due = false;
  table.with(
      chosen, wait, [&]() __attribute__((always_inline)) {
        readings = readings_of(call);
        action(readings);
        is_sweep_due = !charges.empty() && table.count_call(*charges[0].shard);
      });
  if (is_sweep_due) table.sweep_in_turn(readings.real_now);
  return readings.now;
}

[[gnu::always_inline]] inline KeyedCharge keyed(const Table& table, const Charge& charge) {
  const KeyHash key = table.state().hash(charge.policy->digest(), charge.identifier);
  return {&charge, key, &table.shard_of(key)};
}

/// Has all that a charge needs loaded.
[[gnu::always_inline]] inline void prefetch_all(const KeyedCharge& charge) {
  charge.shard->prefetch();
  charge.shard->prefetch_entry(charge.key);
}

/// Sets, from `first` on, the keys of a call, and returns their shards, one bit each.
template <class Keyed, class Prefetch>
[[gnu::always_inline]] inline std::uint64_t find_keys(const Table& table, const Call& call, Keyed& found,
                                                      std::size_t first, const Prefetch& prefetch) {
  std::uint64_t chosen = 0;
  for (const Charge& charge : call.charges) {
    const KeyedCharge& each = found.emplace(first++, keyed(table, charge));
    prefetch(each);
    chosen |= bit_of(*each.shard);
  }
  return chosen;
}

/// For a call whose policies are the same at all instants.
constexpr auto kAlways = [](Instant) { return true; };

/// Calls decide(call, holds) until holds(the instant it returns), and dates the policies in between: no
/// calendar is asked under the locks.
template <class Dated, class Decide>
[[gnu::noinline]] Instant with_dates(const Call& call, const Decide& decide) {
  Dated dated(call);
  dated.move_to_latest([&] { return readings_of(call).now; });
  for (;;) {
    bool is_held = false;
    const Instant now = decide(*dated, [&](Instant at) { return is_held = dated.holds_at(at); });
    if (is_held) return now;
    dated.move_to(now);
  }
}

/// Calls action(call, charges, readings), with the call as it was dated, while its shards are locked, and
/// returns its instant.
template <class Action>
Instant transact(Table& table, const Call& call, MutexWait& wait, const Action& action) {
  if (call.charges.size() > kMaxCharges) {
    throw std::invalid_argument("a call must have at most 64 charges, not " +
                                std::to_string(call.charges.size()));
  }
  const auto once = [&](const Call& dated, const auto& holds) __attribute__((always_inline)) {
    UninitialisedArray<KeyedCharge, kMaxCharges> found;
    const std::uint64_t chosen = find_keys(table, dated, found, 0, prefetch_all);
    const std::span<const KeyedCharge> own(found.data(), dated.charges.size());
    return under_lock(table, chosen, own, dated, wait, [&](const Readings& readings) {
      if (holds(readings.now)) action(dated, own, readings);
    });
  };
  if (!have_calendar(call.charges)) [[likely]]
    return once(call, kAlways);
  return with_dates<DatedCall>(call, once);
}

}  // namespace overlimit::table
