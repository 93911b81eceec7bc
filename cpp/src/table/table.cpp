#include "table/table.hpp"

#include <mutex>

namespace overlimit::table {
namespace {

constexpr std::size_t kKeysPerShard = 1024;
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

}  // namespace

Division Division::of(std::size_t max_keys, std::size_t bytes, std::size_t least, std::size_t overhead) {
  const std::size_t wanted = std::min(max_keys / kKeysPerShard, bytes / least);
  const std::size_t needed = std::bit_ceil((bytes + kMaxShardBytes - 1) / kMaxShardBytes);
  const std::size_t count = std::max(needed, std::bit_floor(std::clamp<std::size_t>(wanted, 1, kMaxShards)));
  // An odd number of pairs, or the same places of all shards would compete for the same few lines of a cache.
  const std::size_t pairs = (bytes / count / kPair - 1) | 1;
  const std::size_t share = pairs * kPair - overhead;
  return {count, share, buckets_for(share)};
}

void throw_damaged() {
  throw StoreConfigError(
      "a part of the shared memory is damaged, and nothing is granted from it: call unlink() on the store, "
      "or remove its file, and restart all processes that use it");
}

std::size_t Table::touched_bytes(MutexWait& wait) {
  std::size_t bytes = 0;
  for (const std::unique_ptr<Shard>& shard : shards_) {
    with(*shard, wait, [&] { bytes += shard->arena().touched_bytes(); });
  }
  return bytes;
}

std::size_t Table::damaged_shards() const {
  return std::size_t(std::ranges::count_if(
      shards_, [](const std::unique_ptr<Shard>& shard) { return shard->state().is_damaged != 0; }));
}

void Table::make_ready(Shard& shard, MutexWait& wait) {
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
    Shard& other = first_of(left);
    hold(other, wait);
    other.mutex.unlock();
  }
  shard.recover(log.others != 0 && log.complete != 0);
}

void Table::recount(MutexWait& wait) {
  with_all(wait, [&] {
    std::uint64_t tracked = 0;
    for (const std::unique_ptr<Shard>& shard : shards_) tracked += shard->state().tracked;
    state_.totals.tracked.store(tracked, std::memory_order_relaxed);
    state_.totals.recount.store(0, std::memory_order_relaxed);
  });
}

// Written only while it matters, since every call of every thread reads it.
void Table::count_sweep(bool has_erased) {
  const unsigned idle = idle_sweeps_.load(std::memory_order_relaxed);
  const unsigned next = has_erased ? 0 : std::min<unsigned>(idle + 1, kMaxShards);
  if (next != idle) idle_sweeps_.store(next, std::memory_order_relaxed);
}

// Two threads may choose the same shard.
void Table::sweep_in_turn(Instant real_now) {
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
    count_sweep(shard.sweep_in_turn(real_now, calls_per_sweep()));
  } catch (const Damaged&) {
    shard.abandon();
  }
}

}  // namespace overlimit::table
