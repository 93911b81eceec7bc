// One call on the table, from its charges to its rows, under the locks of its shards.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <span>

#include "overlimit/call.hpp"
#include "overlimit/store.hpp"
#include "overlimit/uninitialised_array.hpp"
#include "table/shard.hpp"
#include "table/writing.hpp"

namespace overlimit::table {

/// A charge, its key, and the shard in which that lies.
struct KeyedCharge {
  const Charge* charge;
  KeyHash key;
  Shard* shard;
};

/// The same, and the entry that decides it.
struct Target : KeyedCharge {
  Target(const KeyedCharge& keyed, std::size_t first_row) : KeyedCharge(keyed), first(first_row) {}

  std::size_t first;       ///< the row of the charge's first pair
  Entry* entry = nullptr;  ///< nullptr: the key is new, and nothing is written
  Cost cost = 0;           ///< what the entry is charged; for an overflow entry, the sum of all that share it
  Status verdict{};        ///< the worst of its pairs, or locked
  bool fresh = false;      ///< inserted by this call, to be erased if it is not charged
  bool charged = false;    ///< itself, or an earlier target with the same overflow entry
  Record* lock_record = nullptr;  ///< the record of its lock; nullptr: the entry has none
  std::optional<Lock> lock{};     ///< none if it has been forgotten
};

/// The examined pairs of a call; most calls have few.
class ExaminedPairs {
 public:
  explicit ExaminedPairs(std::size_t pairs)
      : many_(pairs > kInline ? std::make_unique<ExaminedPair[]>(pairs) : nullptr),
        pairs_(many_ ? many_.get() : few_.data()) {}
  ExaminedPair& operator[](std::size_t pair) { return pairs_[pair]; }

 private:
  static constexpr std::size_t kInline = 16;
  UninitialisedArray<ExaminedPair, kInline> few_;
  std::unique_ptr<ExaminedPair[]> many_;
  ExaminedPair* pairs_;
};

/// Decides one call and writes it: all of it or nothing.
class Transaction {
 public:
  /// Of these charges, those of the call. Their shards are locked for as long as this lives.
  /// `newest_creation` is when the newest entry of the table was created.
  Transaction(const Call& call, std::span<const KeyedCharge> charges, const Readings& readings,
              std::atomic<Instant>& newest_creation);

  /// Decides the call, writes it if it passes, and fills the rows.
  /// Returns the crowded charges (see Store::decide). Throws OutOfMemory before anything is charged.
  ChargeBits decide(const Rows& rows);

  /// Refunds what the targets were charged (see Store::refund_showing).
  void refund(std::span<const Receipt> receipts);

  /// Fills the rows of a peek at the same keys, after whatever was done. Ends the transaction.
  void show(const Call& peek, const Rows& rows);

  [[nodiscard]] Instant now() const { return readings_.now; }

  /// Locks every target. Throws OutOfMemory where there is no room for a key of its own.
  void lock(Duration duration);
  void unlock();

 private:
  /// The key and the policy that an entry is for.
  struct Holder {
    KeyHash key;
    std::uint64_t policy;
  };

  void find_entries();
  /// False, with nothing changed, unless the key has an entry that starts with the records of its limits.
  bool find_known_entry(Target& target);
  void find_entry(Target& target);
  Entry* entry_for_new_key(Target& target);
  static Entry* overflow_entry_for(const Target& target);
  [[nodiscard]] bool is_shared_by_another(const Target& target, const Entry& overflow) const;
  Entry* start_entry(Target& target, const Holder& holder, Arena::Purpose purpose, Entry* overflow);
  void share_costs();
  /// Looks from this record of the entry on: that after the limits, if the entry is as the policy has it.
  void find_lock(Target& target, std::size_t first_record);
  void examine(Target& target);
  static void judge_crowd(const Target& target, const Limit& limit, ExaminedPair& examined);
  template <class Write>
  void charge_pairs(const Target& target, Instant created_at, const Rows& rows, const Write& write);
  void charge(Target& target, const Rows& rows);
  void begin_charge(Target& target);
  void end_charge(Target& target);
  /// Fills the rows as if the target were charged.
  void show_charged(const Target& target, const Rows& rows);
  void fill_as_unadmitted(const Target& target, const Limit& limit, const Rows& rows, std::size_t row);
  void refuse(Target& target, const Resolution& resolution, const Rows& rows);
  void write_lock(Target& target, const Lock& lock);
  void refund_target(Target& target, std::span<const Receipt> receipts);
  void mark_charged(Target& target);
  void sweep_if_full();
  Entry* charged_entry(const Target& target, Instant created_at);
  void clean_up();

  const Call& call_;
  UninitialisedArray<Target, kMaxCharges> room_;
  std::span<Target> targets_;
  Readings readings_;
  std::atomic<Instant>& newest_creation_;
  ChargeBits crowded_ = 0;  // the charges whose entry is an overflow entry
  bool has_fresh_ = false;
  ExaminedPairs examined_;
};

}  // namespace overlimit::table
