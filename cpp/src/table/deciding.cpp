// How the stores in memory decide: one call, or several whose shards are locked together.
#include "overlimit/table_store.hpp"
#include "table/calls.hpp"
#include "table/plain_call.hpp"

namespace overlimit::table {
namespace {

// Charges of several calls whose shards are locked, and whose entries are loaded, at the same time.
constexpr std::size_t kTogether = 128;

/// A DatedCall of one charge, which allocates nothing.
class DatedCharge : NonCopyable {
 public:
  explicit DatedCharge(const Call& call) : given_(call.charges.front()), charge_(given_), call_(call) {
    call_.charges = {&charge_, 1};
  }

  [[nodiscard]] bool holds_at(Instant now) const { return policy_->holds_at(now); }
  void move_to(Instant now) { take(given_.policy->dated(now)); }
  template <class Now>
  void move_to_latest(const Now& now) {
    take(given_.policy->latest_or_at(now));
  }
  const Call& operator*() const { return call_; }

 private:
  void take(std::shared_ptr<const CompiledPolicy> policy) {
    policy_ = std::move(policy);
    charge_.policy = policy_.get();
  }

  const Charge& given_;
  Charge charge_;
  Call call_;
  std::shared_ptr<const CompiledPolicy> policy_;
};

[[gnu::noinline]] ChargeBits decide_any(TableState& state, const Call& call,
                                        std::span<const KeyedCharge> charges, const Readings& readings,
                                        const Rows& rows) {
  if (charges.size() == 1) {
    const auto& [charge, key, shard] = charges.front();
    if (refuse_locked(*charge, *shard, shard->find(key), readings, call.patience, rows)) return 0;
  }
  const ChargeBits crowded = Transaction(call, charges, readings, state.newest_creation).decide(rows);
  if (crowded != 0) state.crowded_calls.fetch_add(1, std::memory_order_relaxed);
  return crowded;
}

/// Decides a call while its shards are locked.
[[gnu::always_inline]] inline ChargeBits decide_locked(TableState& state, const Call& call,
                                                       std::span<const KeyedCharge> charges,
                                                       const Readings& readings, const Rows& rows) {
  UninitialisedArray<KnownKey, kMaxCharges> known;
  std::size_t count = 0;
  for (const KeyedCharge& each : charges) {
    Entry* const entry = each.shard->find(each.key);
    if (!is_plain(*each.charge, entry, readings.now)) return decide_any(state, call, charges, readings, rows);
    known.emplace(count++, each.charge, each.shard, entry);
  }
  if (decide_plain(call, {known.data(), count}, readings, state.newest_creation, rows)) return 0;
  return decide_any(state, call, charges, readings, rows);
}

// What transact() does once, for the one charge that most calls have: there is one shard to lock.
template <class Holds>
[[gnu::always_inline]] inline Instant decide_charge(Table& table, const Call& call, const Holds& holds,
                                                    const Rows& rows, ChargeBits& crowded, MutexWait& wait) {
  const KeyedCharge charge = keyed(table, call.charges.front());
  prefetch_all(charge);
  const std::span<const KeyedCharge> own(&charge, 1);
  return under_lock(table, *charge.shard, own, call, wait, [&](const Readings& readings) {
    if (holds(readings.now)) crowded = decide_locked(table.state(), call, own, readings, rows);
  });
}

[[gnu::noinline]] Instant decide_several(Table& table, const Call& call, const Rows& rows,
                                         ChargeBits& crowded, MutexWait& wait) {
  return transact(table, call, wait,
                  [&](const Call& dated, std::span<const KeyedCharge> charges, const Readings& readings) {
                    crowded = decide_locked(table.state(), dated, charges, readings, rows);
                  });
}

[[gnu::noinline]] Instant decide_dated(Table& table, const Call& call, const Rows& rows, ChargeBits& crowded,
                                       MutexWait& wait) {
  return with_dates<DatedCharge>(call, [&](const Call& dated, const auto& holds) {
    return decide_charge(table, dated, holds, rows, crowded, wait);
  });
}

[[gnu::flatten]] Instant decide_alone(Table& table, const Call& call, const Rows& rows, ChargeBits& crowded,
                                      MutexWait& wait) {
  if (call.charges.size() != 1) return decide_several(table, call, rows, crowded, wait);
  if (call.charges.front().policy->has_calendar()) return decide_dated(table, call, rows, crowded, wait);
  return decide_charge(table, call, kAlways, rows, crowded, wait);
}

/// How many of these calls, from the first on, are decided together.
std::size_t count_together(std::span<const Call> calls) {
  std::size_t charges = 0;
  std::size_t count = 0;
  for (const Call& call : calls) {
    charges += call.charges.size();
    if (charges > kTogether || have_calendar(call.charges)) break;
    ++count;
  }
  return std::max<std::size_t>(1, count);
}

/// Whether calls that are decided together have one instant.
bool have_same_time(const Call& one, const Call& other) {
  return one.clock == other.clock && one.now == other.now && one.system_clock == other.system_clock;
}

/// Has the entries of charges loaded, whose buckets are, while those before them are decided.
class Prefetching {
 public:
  explicit Prefetching(std::span<const KeyedCharge> charges) : charges_(charges) {}
  /// To be called before the charges up to `decided` are.
  void advance(std::size_t decided) {
    for (; next_ < std::min(charges_.size(), decided + kAhead); ++next_) {
      charges_[next_].shard->prefetch_entry(charges_[next_].key);
    }
  }

 private:
  static constexpr std::size_t kAhead = 16;

  std::span<const KeyedCharge> charges_;
  std::size_t next_ = 0;
};

/// How many sweeps are due, and when they are.
struct Sweeps {
  std::size_t count = 0;
  Instant at{};
};

// `kCharges`: how many each call has, 0 if that differs.
template <std::size_t kCharges>
Sweeps decide_each(const Table& table, std::span<const Call> calls, std::span<const KeyedCharge> found,
                   const Rows& rows, std::span<Instant> times, std::span<Basis> bases) {
  Sweeps due;
  Readings readings{};
  std::size_t first = 0;
  std::size_t first_row = 0;
  Prefetching prefetching(found);
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const Call& call = calls[i];
    const std::size_t charges = kCharges > 0 ? kCharges : call.charges.size();
    const std::size_t pairs = pairs_of(call.charges.first(charges));
    const std::span own = found.subspan(first, charges);
    if (i == 0 || !have_same_time(call, calls[i - 1])) readings = readings_of(call);
    prefetching.advance(first + charges);
    bases[i].crowded = decide_locked(table.state(), call, own, readings, rows_of(rows, first_row, pairs));
    times[i] = readings.now;
    due.count += !own.empty() && table.count_call(*own[0].shard) ? 1 : 0;
    first += charges;
    first_row += pairs;
  }
  due.at = readings.real_now;
  return due;
}

/// Decides calls, of few charges in all and without a calendar, while their shards are locked: what they need
/// is loaded from main memory at the same time.
void decide_together(Table& table, std::span<const Call> calls, const Rows& rows, std::span<Instant> times,
                     std::span<Basis> bases, MutexWait& wait) {
  UninitialisedArray<KeyedCharge, kTogether> keyed_charges;
  std::uint64_t chosen = 0;
  std::size_t count = 0;
  for (const Call& call : calls) {
    chosen |= find_keys(table, call, keyed_charges, count,
                        [](const KeyedCharge& each) { each.shard->prefetch_bucket(each.key); });
    count += call.charges.size();
  }
  const std::span<const KeyedCharge> found(keyed_charges.data(), count);
  Sweeps due;
  table.with(chosen, wait, [&] {
    due = count == calls.size() ? decide_each<1>(table, calls, found, rows, times, bases)
                                : decide_each<0>(table, calls, found, rows, times, bases);
  });
  for (; due.count > 0; --due.count) table.sweep_in_turn(due.at);
}

}  // namespace
}  // namespace overlimit::table

namespace overlimit {

void TableStore::decide_one(const Call& call, const Rows& rows, Instant& time, Basis& basis,
                            const Interrupted& interrupted) {
  table::MutexWait wait(call.timeout.value_or(timeout_), interrupted);
  time = table::decide_alone(table(), call, rows, basis.crowded, wait);
}

void TableStore::decide(std::span<const Call> calls, const Rows& rows, std::span<Instant> times,
                        std::span<Basis> bases, const Interrupted& interrupted) {
  if (calls.empty()) return;
  table::MutexWait wait(calls.front().timeout.value_or(timeout_), interrupted);
  table::Table& table = this->table();
  std::size_t first = 0;
  for (std::size_t i = 0; i < calls.size();) {
    const std::size_t count = table::count_together(calls.subspan(i));
    std::size_t pairs = 0;
    for (const Call& call : calls.subspan(i, count)) pairs += pairs_of(call.charges);
    const Rows own = rows_of(rows, first, pairs);
    if (count > 1) {
      table::decide_together(table, calls.subspan(i, count), own, times.subspan(i), bases.subspan(i), wait);
    } else {
      times[i] = table::decide_alone(table, calls[i], own, bases[i].crowded, wait);
    }
    first += pairs;
    i += count;
  }
}

}  // namespace overlimit
