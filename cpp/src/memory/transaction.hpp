// One call on the table, from its charges to its rows, while the locks of its shards are held.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <span>

#include "memory/shard.hpp"
#include "overlimit/room.hpp"
#include "overlimit/settlement.hpp"
#include "overlimit/store.hpp"

namespace overlimit::memory {

/// A charge and the entry that answers for it.
struct Target {
  const Charge* charge;
  KeyHash key;
  Shard* shard;
  std::size_t first;              ///< the row of the charge's first pair
  Entry* entry = nullptr;         ///< nullptr: never seen, and nothing is to be written
  Cost cost = 0;                  ///< what the entry is charged; in an overflow cell, for all that share it
  Status verdict{};               ///< the worst of its pairs, or locked
  bool fresh = false;             ///< inserted by this call, to be taken back if it isn't charged
  bool charged = false;           ///< itself, or an earlier target with the same overflow cell
  Record* lock_record = nullptr;  ///< where its lock is, or would be; nullptr: it has none and can get none
  std::optional<LockRecord> lock{};  ///< as far as it is remembered
};

/// The instants a call needs: its own, and real time, by which entries are dropped.
struct Readings {
  Micros now;
  Micros real_now;
  bool injected;  ///< now has nothing to do with real time
};

/// The examined pairs of a call; most calls have few.
class Examinations {
 public:
  explicit Examinations(std::size_t pairs)
      : many_(pairs > kInline ? std::make_unique<Examined[]>(pairs) : nullptr),
        pairs_(many_ ? many_.get() : few_.data()) {}
  Examined& operator[](std::size_t pair) { return pairs_[pair]; }

 private:
  static constexpr std::size_t kInline = 16;
  Room<Examined, kInline> few_;
  std::unique_ptr<Examined[]> many_;
  Examined* pairs_;
};

class Attempt {
 public:
  /// The targets name their charge, key and shard; those shards are locked for as long as this lives.
  Attempt(const Call& call, std::span<Target> targets, std::size_t pairs, const Readings& readings)
      : call_(call), targets_(targets), readings_(readings), examined_(pairs) {}

  /// Decides, writes what is to be written, and fills the rows. `births` is the newest birth given out.
  /// Returns the crowded charges (see Store::decide). Throws std::bad_alloc before anything is charged.
  ChargeBits run(const Rows& rows, std::atomic<Micros>& births);

  /// Gives back what the targets were charged (see Store::refund).
  void refund(std::span<const Receipt> receipts);

  /// Locks every target by hand. Throws std::bad_alloc where there is no room for a key of its own.
  void lock(Micros duration, std::atomic<Micros>& births);
  void unlock(std::atomic<Micros>& births);

 private:
  /// Who an entry is for.
  struct Holder {
    KeyHash key;
    std::uint64_t policy;
  };

  void locate(Target& target);
  Entry* entry_for_unknown(Target& target);
  static Entry* cell_for(const Target& target);
  [[nodiscard]] bool is_taken(const Target& target, const Entry& cell) const;
  static Entry* start(Target& target, const Holder& holder, Arena::Purpose purpose, Entry* cell);
  void share_costs();
  void find_lock(Target& target);
  void examine(Target& target);
  void charge(Target& target, const Rows& rows, std::atomic<Micros>& births);
  Written show_as_charged(const Target& target, const Limit& limit, const Rows& rows, std::size_t row,
                          Micros birth);
  void refuse(Target& target, const Settlement& settlement, const Rows& rows, std::atomic<Micros>& births);
  void write_lock(Target& target, const LockRecord& lock, std::atomic<Micros>& births);
  void give_back(Target& target, std::span<const Receipt> receipts);
  void mark_charged(Target& target);
  void make_room();
  void keep(Target& target);
  Entry* charged_entry(const Target& target, Micros birth);
  void tidy();

  const Call& call_;
  std::span<Target> targets_;
  Readings readings_;
  ChargeBits in_cells_ = 0;  // the charges whose entry is an overflow cell
  Examinations examined_;
};

}  // namespace overlimit::memory
