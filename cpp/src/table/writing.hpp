// What every call does that writes entries: all of them or none, and when they were created, and until when
// they are kept.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <optional>
#include <span>

#include "overlimit/non_copyable.hpp"
#include "overlimit/pair.hpp"
#include "overlimit/penalty.hpp"
#include "table/shard.hpp"

namespace overlimit::table {

/// The instants of a call: its own, and real time, by which entries are erased.
struct Readings {
  Instant now;
  Instant real_now;
  bool injected;  ///< now is not real time
};

/// Entries written with an injected clock are erased this long after their last write, in real time.
inline constexpr Duration kInjectedKeep{3'600'000'000};

/// For a new entry: later than that of any other. `newest` is when the newest entry of the table was created.
[[gnu::noinline]] inline Instant next_creation(const Readings& readings, std::atomic<Instant>& newest) {
  Instant before = newest.load(std::memory_order_relaxed);
  Instant created_at{};
  do {
    created_at = max(readings.now, before + kMicrosecond);
  } while (!newest.compare_exchange_weak(before, created_at, std::memory_order_relaxed));
  return created_at;
}

/// To be called before an entry is charged, as that creates a new one.
inline void date_creation(Entry& entry, const Readings& readings, std::atomic<Instant>& newest) {
  if (entry.created_at() == Instant{}) [[unlikely]]
    entry.set_created_at(next_creation(readings, newest));
}

/// To be called when its records have been written.
inline void set_sweep_time(Entry& entry, const Readings& readings) {
  if (readings.injected) {
    entry.keep_until(readings.real_now + kInjectedKeep);
  } else {
    entry.keep_for_records();
  }
}

/// Its numbers are read one by one, as they were written (see header_from).
inline FoundRecord found_record(const Arena& arena, const Record& record) {
  const auto& [first, second, third] = record.header;
  return {record.expires_at, {first, second, third}, cells_of(arena, record)};
}

/// The lock, held or remembered, on the key of an entry, whose records from this one on are not those of
/// limits.
inline std::optional<Lock> lock_of(Entry& entry, std::size_t first_record, Instant now) {
  const Record* const record = entry.find(kLockTag, first_record);
  if (record == nullptr) return std::nullopt;
  return remembered_lock(record->expires_at, record->header, now);
}

[[gnu::noinline]] inline bool is_locked(Entry& entry, std::size_t first_record, Instant now) {
  const std::optional<Lock> lock = lock_of(entry, first_record, now);
  return lock && lock->holds(now);
}

/// All that a call writes into the entries of its targets, from here to complete(), or nothing: not even if
/// its process dies. A target says in which `shard` it lies.
template <class Target>
class WriteScope : NonCopyable {
 public:
  explicit WriteScope(std::span<Target> targets) : targets_(targets) {
    if (targets.empty() || !targets.front().shard->log().is_kept()) return;
    leader_ = std::ranges::min(targets, {}, ordinal_of).shard;
    if (targets.size() > 1) begin();
  }
  ~WriteScope() {
    if (leader_ == nullptr) return;
    for (const Target& target : targets_) target.shard->abandon();
    end();
  }

  void complete() {
    if (leader_ == nullptr) return;
    if (targets_.size() > 1) {
      in_order();
      leader_->log().state().complete = 1;
      end();
    } else {
      leader_->log().complete();
    }
    leader_ = nullptr;
  }

 private:
  static unsigned ordinal_of(const Target& target) { return target.shard->ordinal(); }

  void begin() {
    std::uint64_t shards = 0;
    for (const Target& target : targets_) shards |= std::uint64_t{1} << ordinal_of(target);
    UndoLog::State& leading = leader_->log().state();
    leading.complete = 0;
    in_order();
    leading.others = shards & (shards - 1);
    in_order();
    for_each_other([&](UndoLog& log) { log.state().leader = leader_->ordinal() + 1; });
    in_order();
  }

  void end() {
    for_each_other([](UndoLog& log) {
      log.clear();
      log.state().leader = 0;
    });
    leader_->log().clear();
    leader_->log().state().others = 0;
    in_order();
  }

  template <class Action>
  void for_each_other(const Action& action) {
    for (const Target& target : targets_) {
      if (target.shard != leader_) action(target.shard->log());
    }
  }

  std::span<Target> targets_;
  Shard* leader_ = nullptr;  // nullptr: nothing is to be done
};

}  // namespace overlimit::table
