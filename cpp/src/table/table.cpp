#include "table/table.hpp"

#include <mutex>
#include <random>

#include "table/plain_call.hpp"

namespace overlimit::table {
namespace {

constexpr std::size_t kKeysPerShard = 1024;
// Charges of several calls whose shards are locked, and whose entries are loaded, at the same time.
constexpr std::size_t kTogether = 128;
constexpr std::size_t kCacheLine = 64;
// Processors load cache lines in pairs.
constexpr std::size_t kPair = 2 * kCacheLine;
// The most that offsets can address.
constexpr std::size_t kMaxShardBytes = Arena::kGranule << 32;

// Two for each entry, even if all are of the smallest size; unused pages are never touched. The arena behind
// them begins with a cache line.
std::size_t buckets_for(std::size_t shard_bytes) {
  constexpr std::size_t kSmallestEntry = Entry::size_for(1);
  constexpr std::size_t kPerLine = kCacheLine / sizeof(Offset);
  static_assert(kSmallestEntry % Arena::kGranule == 0);
  return shard_bytes / (kSmallestEntry + 2 * sizeof(Offset)) * 2 / kPerLine * kPerLine;
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

// Inlined because every hit counts. Read under the locks: of two calls on one key the later one is later.
[[gnu::always_inline]] inline Readings readings_of(const Call& call) {
  if (call.clock == nullptr && !call.now) {
    const Instant now = system_now();
    return {now, now, false};
  }
  const Instant now = *call.reading();
  return {now, call.system_clock ? now : system_now(), !call.system_clock};
}

std::uint64_t bit_of(const Shard& shard) { return std::uint64_t{1} << shard.ordinal(); }

/// Whether calls that are decided together have one instant.
bool have_same_time(const Call& one, const Call& other) {
  return one.clock == other.clock && one.now == other.now && one.system_clock == other.system_clock;
}

[[noreturn]] void throw_damaged() {
  throw StoreConfigError(
      "a part of the shared memory is damaged, and nothing is granted from it: call unlink() on the store, "
      "or remove its file, and restart all processes that use it");
}

/// Has all that a charge needs loaded.
[[gnu::always_inline]] inline void prefetch_all(const KeyedCharge& charge) {
  charge.shard->prefetch();
  charge.shard->prefetch_entry(charge.key);
}

/// For a call whose policies are the same at all instants.
constexpr auto kAlways = [](Instant) { return true; };

/// A DatedCall of one charge, which allocates nothing.
class DatedCharge {
 public:
  explicit DatedCharge(const Call& call) : given_(call.charges.front()), charge_(given_), call_(call) {
    call_.charges = {&charge_, 1};
  }
  DatedCharge(const DatedCharge&) = delete;
  DatedCharge& operator=(const DatedCharge&) = delete;

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

}  // namespace

KeyedHash::KeyedHash() {
  std::random_device random;
  for (std::uint64_t& word : key_) {
    // Odd, so that multiplying loses nothing.
    word = ((std::uint64_t{random()} << 32) | random()) | 1;
  }
}

Division Division::of(std::size_t max_keys, std::size_t bytes, std::size_t least, std::size_t overhead) {
  const std::size_t wanted = std::min(max_keys / kKeysPerShard, bytes / least);
  const std::size_t needed = std::bit_ceil((bytes + kMaxShardBytes - 1) / kMaxShardBytes);
  const std::size_t count = std::max(needed, std::bit_floor(std::clamp<std::size_t>(wanted, 1, kMaxShards)));
  // An odd number of pairs, or the same places of all shards would compete for the same few lines of a cache.
  const std::size_t pairs = (bytes / count / kPair - 1) | 1;
  const std::size_t share = pairs * kPair - overhead;
  return {count, share, buckets_for(share)};
}

/// Locks a set of shards, one bit each, in ascending order, which is the same for every call.
class HeldShards : NonCopyable {
 public:
  HeldShards(Table& table, std::uint64_t chosen, MutexWait& wait) : table_(table) {
    try {
      for (; locked_ != chosen; locked_ |= next(chosen & ~locked_)) {
        table.hold_shard(shard_at(chosen & ~locked_), wait);
      }
    } catch (...) {
      unlock();
      throw;
    }
  }
  ~HeldShards() { unlock(); }

  /// To be called when the shards turned out to be damaged: finds out which of them are.
  void find_damage() const {
    for (std::uint64_t left = locked_; left != 0; left &= left - 1) shard_at(left).abandon();
  }

 private:
  static std::uint64_t next(std::uint64_t shards) { return shards & (~shards + 1); }
  [[nodiscard]] Shard& shard_at(std::uint64_t shards) const {
    return *table_.shards_[std::size_t(std::countr_zero(shards))];
  }

  void unlock() {
    for (; locked_ != 0; locked_ &= locked_ - 1) {
      shard_at(locked_).end_call();
      shard_at(locked_).mutex.unlock();
    }
  }

  Table& table_;
  std::uint64_t locked_ = 0;
};

/// Locks one shard.
class HeldShard : NonCopyable {
 public:
  HeldShard(Table& table, Shard& shard, MutexWait& wait) : shard_(shard) { table.hold_shard(shard, wait); }
  ~HeldShard() {
    shard_.end_call();
    shard_.mutex.unlock();
  }
  void find_damage() const { shard_.abandon(); }

 private:
  Shard& shard_;
};

template <class Action>
void Table::with_shards(std::uint64_t chosen, MutexWait& wait, const Action& action) {
  const HeldShards locks(*this, chosen, wait);
  try {
    action();
  } catch (const Damaged&) {
    locks.find_damage();
    throw_damaged();
  }
}

inline void Table::hold_shard(Shard& shard, MutexWait& wait) {
  shard.mutex.lock(wait);
  if (shard.log().is_kept() && !shard.is_ready()) [[unlikely]]
    make_ready(shard, wait);
}

[[gnu::noinline]] void Table::make_ready(Shard& shard, MutexWait& wait) {
  try {
    if (shard.needs_recovery()) recover(shard, wait);
    shard.check();
  } catch (const Damaged&) {
    shard.state().is_damaged = 1;
    shard.mutex.unlock();
    throw_damaged();
  } catch (...) {
    shard.mutex.unlock();
    throw;
  }
}

// The others of a call lie behind its leading shard, so they are locked in ascending order here too.
void Table::recover(Shard& shard, MutexWait& wait) {
  require(shard.state().is_damaged == 0);
  const UndoLog::State& log = shard.log().state();
  const std::uint64_t own = bit_of(shard);
  if (log.leader != 0) {
    require(log.leader <= shard.ordinal());
    const UndoLog::State& leading = shards_[log.leader - 1]->log().state();
    return shard.recover(leading.complete != 0 && (leading.others & own) != 0);
  }
  require((log.others & (own | (own - 1))) == 0 && std::size_t(std::bit_width(log.others)) <= shards_.size());
  for (std::uint64_t left = log.others; left != 0; left &= left - 1) {
    Shard& other = *shards_[std::size_t(std::countr_zero(left))];
    hold_shard(other, wait);
    other.mutex.unlock();
  }
  shard.recover(log.others != 0 && log.complete != 0);
}

[[gnu::noinline]] void Table::recount(MutexWait& wait) {
  const HeldShards locks(*this, all_shards(), wait);
  std::uint64_t tracked = 0;
  for (const std::unique_ptr<Shard>& shard : shards_) tracked += shard->state().tracked;
  state_.totals.tracked.store(tracked, std::memory_order_relaxed);
  state_.totals.recount.store(0, std::memory_order_relaxed);
}

// A sweep takes the lock of a shard from those who use it, so where there is little to do it is rarer and
// does more at once: a bucket for each call.
unsigned Table::calls_per_sweep() const {
  return idle_sweeps_.load(std::memory_order_relaxed) < kMaxShards ? 4 : 16;
}

// Written only while it matters, since every call of every thread reads it.
void Table::count_sweep(bool has_erased) {
  const unsigned idle = idle_sweeps_.load(std::memory_order_relaxed);
  const unsigned next = has_erased ? 0 : std::min<unsigned>(idle + 1, kMaxShards);
  if (next != idle) idle_sweeps_.store(next, std::memory_order_relaxed);
}

// True if it is time to sweep.
bool Table::count_call(std::span<const KeyedCharge> charges) const {
  return !charges.empty() && charges[0].shard->count_call(calls_per_sweep());
}

// Two threads may choose the same shard.
[[gnu::noinline]] void Table::sweep_in_turn(Instant real_now) {
  const std::uint64_t occupied = state_.totals.occupied.load(std::memory_order_relaxed);
  if (occupied == 0) return;
  const unsigned from = turn_.load(std::memory_order_relaxed);
  const unsigned next = (from + unsigned(std::countr_zero(std::rotr(occupied, int(from))))) % kMaxShards;
  turn_.store((next + 1) % kMaxShards, std::memory_order_relaxed);
  if (next >= shards_.size()) return;
  Shard& shard = *shards_[next];
  const std::unique_lock lock(shard.mutex, std::try_to_lock);
  if (!lock.owns_lock() || (shard.log().is_kept() && shard.needs_recovery())) return;
  try {
    shard.check();
    const bool has_erased = shard.sweep_in_turn(real_now, calls_per_sweep());
    count_sweep(has_erased);
  } catch (const Damaged&) {
    shard.abandon();
  }
}

[[gnu::always_inline]] inline KeyedCharge Table::keyed(const Charge& charge) const {
  const KeyHash key = state_.hash(charge.policy->digest(), charge.identifier);
  return {&charge, key, shards_[shard_index(key)].get()};
}

template <class Keyed, class Prefetch>
[[gnu::always_inline]] inline std::uint64_t Table::find_keys(const Call& call, Keyed& keyed_charges,
                                                             std::size_t first,
                                                             const Prefetch& prefetch) const {
  std::uint64_t shards = 0;
  for (const Charge& charge : call.charges) {
    const KeyedCharge& each = keyed_charges.emplace(first++, keyed(charge));
    prefetch(each);
    shards |= bit_of(*each.shard);
  }
  return shards;
}

template <class Action>
Instant Table::transact(const Call& call, MutexWait& wait, const Action& action) {
  if (call.charges.size() > kMaxCharges) {
    throw std::invalid_argument("a call must have at most 64 charges, not " +
                                std::to_string(call.charges.size()));
  }
  if (!have_calendar(call.charges)) [[likely]]
    return transact_once(call, kAlways, wait, action);
  return with_dates<DatedCall>(
      call, [&](const Call& dated, const auto& holds) { return transact_once(dated, holds, wait, action); });
}

template <class Holds, class Action>
[[gnu::always_inline]] inline Instant Table::transact_once(const Call& call, const Holds& holds,
                                                           MutexWait& wait, const Action& action) {
  UninitialisedArray<KeyedCharge, kMaxCharges> keyed_charges;
  const std::uint64_t chosen = find_keys(call, keyed_charges, 0, prefetch_all);
  const std::span<const KeyedCharge> own(keyed_charges.data(), call.charges.size());
  return under_lock<HeldShards>(chosen, own, call, wait, [&](const Readings& readings) {
    if (holds(readings.now)) action(call, own, readings);
  });
}

template <class Held, class Chosen, class Action>
[[gnu::always_inline]] inline Instant Table::under_lock(Chosen& chosen, std::span<const KeyedCharge> charges,
                                                        const Call& call, MutexWait& wait,
                                                        const Action& action) {
  if (state_.totals.recount.load(std::memory_order_relaxed) != 0) [[unlikely]]
    recount(wait);
  Readings readings;
  bool is_sweep_due = false;
  {
    const Held held(*this, chosen, wait);
    readings = readings_of(call);
    try {
      action(readings);
    } catch (const Damaged&) {
      held.find_damage();
      throw_damaged();
    }
    is_sweep_due = count_call(charges);
  }
  if (is_sweep_due) sweep_in_turn(readings.real_now);
  return readings.now;
}

template <class Action>
Instant Table::with_transaction(const Call& call, MutexWait& wait, const Action& action) {
  return transact(call, wait,
                  [&](const Call& dated, std::span<const KeyedCharge> charges, const Readings& readings) {
                    Transaction transaction(dated, charges, readings, state_.newest_creation);
                    action(transaction);
                  });
}

[[gnu::noinline]] ChargeBits Table::decide_any(const Call& call, std::span<const KeyedCharge> charges,
                                               const Readings& readings, const Rows& rows) {
  if (charges.size() == 1) {
    const auto& [charge, key, shard] = charges.front();
    if (refuse_locked(*charge, *shard, shard->find(key), readings, call.patience, rows)) return 0;
  }
  const ChargeBits crowded = Transaction(call, charges, readings, state_.newest_creation).decide(rows);
  if (crowded != 0) state_.crowded_calls.fetch_add(1, std::memory_order_relaxed);
  return crowded;
}

[[gnu::always_inline]] inline ChargeBits Table::decide(const Call& call, std::span<const KeyedCharge> charges,
                                                       const Readings& readings, const Rows& rows) {
  UninitialisedArray<KnownKey, kMaxCharges> known;
  std::size_t count = 0;
  for (const KeyedCharge& each : charges) {
    Entry* const entry = each.shard->find(each.key);
    if (!is_plain(*each.charge, entry, readings.now)) return decide_any(call, charges, readings, rows);
    known.emplace(count++, each.charge, each.shard, entry);
  }
  if (decide_plain(call, {known.data(), count}, readings, state_.newest_creation, rows)) return 0;
  return decide_any(call, charges, readings, rows);
}

[[gnu::flatten]] void Table::decide_one(const Call& call, const Rows& rows, Instant& time,
                                        ChargeBits& crowded, MutexWait& wait) {
  if (call.charges.size() != 1) return decide_several(call, rows, time, crowded, wait);
  if (call.charges.front().policy->has_calendar()) return decide_dated(call, rows, time, crowded, wait);
  time = decide_charge(call, kAlways, rows, crowded, wait);
}

[[gnu::noinline]] void Table::decide_several(const Call& call, const Rows& rows, Instant& time,
                                             ChargeBits& crowded, MutexWait& wait) {
  time = transact(call, wait,
                  [&](const Call& dated, std::span<const KeyedCharge> charges, const Readings& readings) {
                    crowded = decide(dated, charges, readings, rows);
                  });
}

[[gnu::noinline]] void Table::decide_dated(const Call& call, const Rows& rows, Instant& time,
                                           ChargeBits& crowded, MutexWait& wait) {
  time = with_dates<DatedCharge>(call, [&](const Call& dated, const auto& holds) {
    return decide_charge(dated, holds, rows, crowded, wait);
  });
}

// What transact_once() does, for the one charge that most calls have: there is one shard to lock.
template <class Holds>
[[gnu::always_inline]] inline Instant Table::decide_charge(const Call& call, const Holds& holds,
                                                           const Rows& rows, ChargeBits& crowded,
                                                           MutexWait& wait) {
  const KeyedCharge charge = keyed(call.charges.front());
  prefetch_all(charge);
  const std::span<const KeyedCharge> own(&charge, 1);
  return under_lock<HeldShard>(*charge.shard, own, call, wait, [&](const Readings& readings) {
    if (holds(readings.now)) crowded = decide(call, own, readings, rows);
  });
}

void Table::decide_together(std::span<const Call> calls, const Rows& rows, std::span<Instant> times,
                            std::span<Basis> bases, MutexWait& wait) {
  UninitialisedArray<KeyedCharge, kTogether> keyed_charges;
  std::uint64_t chosen = 0;
  std::size_t count = 0;
  for (const Call& call : calls) {
    chosen |= find_keys(call, keyed_charges, count,
                        [](const KeyedCharge& each) { each.shard->prefetch_bucket(each.key); });
    count += call.charges.size();
  }
  const std::span<const KeyedCharge> found(keyed_charges.data(), count);
  Sweeps due;
  with_shards(chosen, wait, [&] {
    due = count == calls.size() ? decide_each<1>(calls, found, rows, times, bases)
                                : decide_each<0>(calls, found, rows, times, bases);
  });
  for (; due.count > 0; --due.count) sweep_in_turn(due.at);
}

// `kCharges`: how many each call has, 0 if that differs.
template <std::size_t kCharges>
Table::Sweeps Table::decide_each(std::span<const Call> calls, std::span<const KeyedCharge> found,
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
    bases[i].crowded = decide(call, own, readings, rows_of(rows, first_row, pairs));
    times[i] = readings.now;
    due.count += count_call(own) ? 1 : 0;
    first += charges;
    first_row += pairs;
  }
  due.at = readings.real_now;
  return due;
}

void Table::decide(std::span<const Call> calls, const Rows& rows, std::span<Instant> times,
                   std::span<Basis> bases, MutexWait& wait) {
  std::size_t first = 0;
  for (std::size_t i = 0; i < calls.size();) {
    const std::size_t count = count_together(calls.subspan(i));
    std::size_t pairs = 0;
    for (const Call& call : calls.subspan(i, count)) pairs += pairs_of(call.charges);
    const Rows own = rows_of(rows, first, pairs);
    if (count > 1) {
      decide_together(calls.subspan(i, count), own, times.subspan(i), bases.subspan(i), wait);
    } else {
      decide_one(calls[i], own, times[i], bases[i].crowded, wait);
    }
    first += pairs;
    i += count;
  }
}

void Table::refund(const Call& call, std::span<const Receipt> receipts, Present* present, MutexWait& wait) {
  if (present == nullptr) {
    with_transaction(call, wait, [&](Transaction& transaction) { transaction.refund(receipts); });
    return;
  }
  DatedCall shown({.charges = present->charges, .mode = Mode::peek}, readings_of(call).now);
  for (bool is_done = false; !is_done; shown.move_to(present->time)) {
    present->time = with_transaction(call, wait, [&](Transaction& transaction) {
      is_done = shown.holds_at(transaction.now());
      if (!is_done) return;
      transaction.refund(receipts);
      transaction.show(*shown, present->rows);
    });
  }
}

void Table::lock(const Call& call, Duration duration, MutexWait& wait) {
  with_transaction(call, wait, [&](Transaction& transaction) { transaction.lock(duration); });
}

void Table::unlock(const Call& call, MutexWait& wait) {
  with_transaction(call, wait, [&](Transaction& transaction) { transaction.unlock(); });
}

void Table::reset_all(const PolicyIdentity& policy, MutexWait& wait) {
  for (const std::unique_ptr<Shard>& shard : shards_) {
    with_shards(bit_of(*shard), wait, [&] { shard->erase_policy(policy.digest()); });
  }
}

void Table::clear(MutexWait& wait) {
  with_shards(all_shards(), wait, [&] {
    for (const std::unique_ptr<Shard>& shard : shards_) shard->erase_all();
  });
}

std::size_t Table::touched_bytes(MutexWait& wait) {
  std::size_t bytes = 0;
  for (const std::unique_ptr<Shard>& shard : shards_) {
    with_shards(bit_of(*shard), wait, [&] { bytes += shard->arena().touched_bytes(); });
  }
  return bytes;
}

std::size_t Table::copy_keys(std::size_t shard, std::size_t below, std::size_t buckets,
                             std::vector<KeptKey>& keys, MutexWait& wait) {
  if (shard >= shards_.size()) return 0;
  std::size_t next = 0;
  with_shards(bit_of(*shards_[shard]), wait, [&] { next = shards_[shard]->copy_keys(below, buckets, keys); });
  return next;
}

std::optional<KeptKey> Table::copy_key(const KeyHash& key, MutexWait& wait) {
  Shard& shard = *shards_[shard_index(key)];
  std::optional<KeptKey> kept;
  with_shards(bit_of(shard), wait, [&] {
    if (Entry* const entry = shard.find(key)) kept = kept_key(shard.arena(), *entry);
  });
  return kept;
}

void Table::reset_key(const KeyHash& key, MutexWait& wait) {
  Shard& shard = *shards_[shard_index(key)];
  with_shards(bit_of(shard), wait, [&] {
    if (Entry* const entry = shard.find(key)) shard.erase(entry);
  });
}

// A key that is there tells its policy, whose limits do not matter: a lock stands beside their records.
template <class Action>
void Table::with_key(const KeyHash& key, MutexWait& wait, const Action& action) {
  const CompiledPolicy any("any", {Limit("fixed_window", std::vector<std::int64_t>{1, 1'000'000, 0})});
  const Charge charge{&any, {}};
  const Call call{.charges = {&charge, 1}};
  const KeyedCharge keyed{&charge, key, shards_[shard_index(key)].get()};
  const std::uint64_t chosen = bit_of(*keyed.shard);
  under_lock<HeldShards>(chosen, {&keyed, 1}, call, wait, [&](const Readings& readings) {
    if (keyed.shard->find(key) == nullptr) return;
    Transaction transaction(call, {&keyed, 1}, readings, state_.newest_creation);
    action(transaction);
  });
}

void Table::lock_key(const KeyHash& key, Duration duration, MutexWait& wait) {
  with_key(key, wait, [&](Transaction& transaction) { transaction.lock(duration); });
}

void Table::unlock_key(const KeyHash& key, MutexWait& wait) {
  with_key(key, wait, [](Transaction& transaction) { transaction.unlock(); });
}

void Table::reset(const PolicyIdentity& policy, std::span<const std::string_view> identifiers,
                  MutexWait& wait) {
  std::vector<KeyHash> keys;
  std::uint64_t chosen = 0;
  for (const std::string_view identifier : identifiers) {
    keys.push_back(state_.hash(policy.digest(), identifier));
    chosen |= bit_of(*shards_[shard_index(keys.back())]);
  }
  with_shards(chosen, wait, [&] {
    for (const KeyHash& key : keys) {
      Shard& shard = *shards_[shard_index(key)];
      if (Entry* entry = shard.find(key)) shard.erase(entry);
    }
  });
}

std::size_t Table::damaged_shards() const {
  return std::size_t(std::ranges::count_if(
      shards_, [](const std::unique_ptr<Shard>& shard) { return shard->state().is_damaged != 0; }));
}

}  // namespace overlimit::table
