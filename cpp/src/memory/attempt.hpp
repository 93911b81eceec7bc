// One call on the table, from its charges to its rows, while the locks of its shards are held.
#pragma once

#include <atomic>
#include <memory>
#include <span>

#include "memory/shard.hpp"
#include "overlimit/room.hpp"
#include "overlimit/store.hpp"

namespace overlimit::memory {

/// A charge and the entry that answers for it.
struct Target {
  const Charge* charge;
  KeyHash key;
  Shard* shard;
  Entry* entry;       ///< nullptr: never seen, and nothing is to be written
  Cost cost;          ///< what the entry is charged; in an overflow cell, for all that share it
  std::size_t first;  ///< the row of the charge's first pair
  Status verdict;     ///< the worst of its pairs
  bool fresh;         ///< inserted by this call, to be taken back if it isn't charged
  bool charged;       ///< itself, or an earlier target with the same overflow cell
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
  /// Throws std::bad_alloc before anything is charged.
  void run(const Rows& rows, std::atomic<Micros>& births);

 private:
  void locate(Target& target);
  Entry* entry_for_unknown(Target& target);
  void share_costs();
  void examine_all();
  void charge(Target& target, const Rows& rows, std::atomic<Micros>& births);
  Written show_as_charged(const Target& target, const Limit& limit, const Rows& rows, std::size_t row,
                          Micros birth);
  void show_as_found(const Target& target, const Rows& rows);
  void tidy();

  const Call& call_;
  std::span<Target> targets_;
  Readings readings_;
  Examinations examined_;
};

}  // namespace overlimit::memory
