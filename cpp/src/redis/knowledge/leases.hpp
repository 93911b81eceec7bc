// Units that this process charged early and spends by itself (docs/semantics.md: leases).
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "overlimit/call.hpp"
#include "overlimit/forks.hpp"
#include "overlimit/redis_location.hpp"
#include "overlimit/redis_store.hpp"
#include "redis/knowledge/place.hpp"
#include "redis/knowledge/server_reading.hpp"

namespace overlimit::redis {

/// Units of one key, under the limits of one policy. What is not atomic never changes. Thread-safe.
class Lease : NonCopyable {
 public:
  /// What its command answered for a limit.
  struct Row {
    std::int64_t remaining;  ///< in the record, after all that was charged
    Instant gone_at;
    Receipt receipt;
  };

  Lease(const Charge& charge, const ServerReading& told, Duration ends_at, const Rows& rows, Cost units);

  /// Takes units; none if fewer are left. Nothing may be spent unless it has not ended after that.
  [[nodiscard]] bool take(Cost units, Cost& left);
  [[nodiscard]] bool has_ended(Duration now) const { return now >= ends_at_; }
  void put_back(Cost units) { units_.fetch_add(units, std::memory_order_acq_rel); }
  /// Takes all that are left, once and for all.
  [[nodiscard]] Cost take_rest() {
    const Cost rest = units_.exchange(0, std::memory_order_acq_rel);
    rest_.fetch_add(rest, std::memory_order_acq_rel);
    return rest;
  }
  [[nodiscard]] Cost left() const { return units_.load(std::memory_order_acquire); }
  [[nodiscard]] Cost spent() const { return granted_ - rest_.load(std::memory_order_acquire) - left(); }

  [[nodiscard]] bool is_of(const CompiledPolicy& policy) const {
    return policy.limits_digest() == policy_.limits_digest();
  }
  /// Whether it has enough for a charge, under the limits of that.
  [[nodiscard]] bool covers(const Charge& charge) const {
    return is_of(*charge.policy) && left() >= charge.cost;
  }
  [[nodiscard]] bool is_charged_by(std::span<const Receipt> receipts) const;
  [[nodiscard]] Duration ends_at() const { return ends_at_; }
  /// The earliest instant that the server's clock can show, but none before one that was shown.
  [[nodiscard]] Instant time(Duration now) const {
    return max(told_.earliest(now), Instant(shown_.load(std::memory_order_relaxed)));
  }
  /// Notes what this process charged to the key besides.
  void note_charged(Cost units) { besides_.fetch_add(units, std::memory_order_relaxed); }
  void note_time(Instant time) {
    std::int64_t before = shown_.load(std::memory_order_relaxed);
    while (before < time.micros() && !shown_.compare_exchange_weak(before, time.micros())) {
    }
  }
  /// The rows of a decision at this instant, after which so many units are left here.
  void show(Instant time, Cost left, const Rows& rows) const;
  /// The rows of a call that is refused until its turn comes, after so long.
  void show_refused(Instant time, Duration retry_after, const Rows& rows) const;
  /// The charge of so many of its units, and the receipts of its command.
  [[nodiscard]] Charge charge_of(Cost units) const { return {&policy_, identifier_, units, Role::enforce}; }
  [[nodiscard]] std::vector<Receipt> receipts() const;

 private:
  const CompiledPolicy policy_;
  const std::string identifier_;
  const ServerReading told_;
  const Duration ends_at_;  // boot time
  const std::vector<Row> rows_;
  const Cost granted_;
  std::atomic<Cost> units_;
  std::atomic<Cost> besides_{0};
  std::atomic<Cost> rest_{0};           // that was taken
  std::atomic<std::int64_t> shown_{0};  // the latest instant of a call with others
};

/// The leases that this process has in one place. Thread-safe.
class Leases : NonCopyable {
 public:
  static constexpr std::size_t kMostKeys = 4096;

  /// Units that are to be given back.
  struct Return {
    std::shared_ptr<Lease> lease;
    Cost units;
  };
  using Counts = LeaseCounts;

  static std::shared_ptr<Leases> of(const Location& location, const RedisStore::Keys& keys);

  [[nodiscard]] bool are_wanted() const { return are_wanted_.load(std::memory_order_relaxed); }
  void want() {
    are_wanted_.store(true, std::memory_order_relaxed);
    anybody_wants_to_know.store(true, std::memory_order_relaxed);
  }

  /// The lease of a key, or nullptr.
  [[nodiscard]] std::shared_ptr<Lease> find(const Charge& charge);
  /// Until when the process does not ask for a key, as it takes turns; 0 if it doesn't.
  [[nodiscard]] Duration next_turn(const Charge& charge);

  /// How many extra units to ask for with a command for this charge, to last for so long at the rate since
  /// the last one; 0: the key is rare, or somebody else is asking. A lease that is too small for it ends.
  /// If little of a lease comes back (`is_dear`), no more than what was spent in such a time.
  [[nodiscard]] Cost ask(const Charge& charge, Duration life, Duration now, bool is_dear = false);
  /// Whether ask() would ask for units.
  [[nodiscard]] bool is_wanted(const Charge& charge, Duration life, Duration now, bool is_dear = false);
  /// As long as keys are being changed, what is leased meanwhile ends at once.
  void begin_change() { changes_.fetch_add(1); }
  void end_change() { changes_.fetch_sub(1); }
  /// How often leases were ended from outside by now.
  [[nodiscard]] std::uint32_t endings() const { return endings_.load(std::memory_order_acquire); }
  /// What a command answered that was sent at this boot time, after so many endings: a lease, or nullptr. A
  /// key that is not asked for until `rare_from`, a life later, is rare; and then the next turn comes.
  void answered(const Charge& charge, std::shared_ptr<Lease> lease, Duration asked_at, Cost wanted,
                bool is_refused, Duration rare_from, std::uint32_t endings);
  /// Ends a lease that is too small for a charge which is asked for, so that its rest goes back before that.
  void make_way(const Charge& charge);
  /// Ends the leases of a key. Without `gives_back`, what is left of them has lapsed.
  void end(std::string_view policy, std::string_view identifier, bool gives_back);
  void end_all(std::string_view policy, bool gives_back);
  void end_all();

  /// Whether there may be something to give back.
  [[nodiscard]] bool have_ended(Duration now) const {
    return next_end_.load(std::memory_order_relaxed) <= now.micros();
  }
  /// Takes what is left of all that have ended.
  [[nodiscard]] std::vector<Return> take_ended(Duration now);
  /// Counts units that were given back, or were lost on the way.
  void note_given_back(const Charge& charge, Cost units, bool has_arrived);
  [[nodiscard]] Counts counts(const PolicyIdentity& policy);

 private:
  struct Key {
    std::shared_ptr<Lease> lease;
    Duration asked_at{};  // boot time of the last command
    Duration rare_from{};
    Cost asked = 0;         // what that charged for its own call
    Duration life_began{};  // a time of a life, and what was spent in it before the last command
    Cost in_life = 0;
    Cost before = 0;                // in the one before
    Cost turns_from = 0;            // calls of this cost and dearer ones take turns; 0: none
    std::uint64_t turns_under = 0;  // these limits
    Duration next_turn{};
    Duration refilled_by{};  // somebody asks for units, who may not come back after this
  };
  struct Name {
    std::string_view policy;
    std::string_view identifier;
    bool operator==(const Name&) const = default;
  };
  struct OwnName {
    std::string policy;
    std::string identifier;
  };
  static Name view_of(const Name& name) { return name; }
  static Name view_of(const OwnName& name) { return {name.policy, name.identifier}; }
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(const auto& name) const {
      const std::hash<std::string_view> hash;
      return hash(view_of(name).identifier) * 31 + hash(view_of(name).policy);
    }
  };
  struct Equal {
    using is_transparent = void;
    bool operator()(const auto& one, const auto& other) const { return view_of(one) == view_of(other); }
  };

  static Name name_of(const Charge& charge) { return {charge.policy->name(), charge.identifier}; }
  static bool takes_turns(const Key& key, const Charge& charge);
  static void note_turn(Key& key, const Charge& charge, bool is_refused);
  Key* key_for(const Charge& charge, Duration now);
  static Cost wanted_of(const Key& key, const Charge& charge, Duration life, Duration now, bool is_dear);
  static void count_spent(Key& key, Duration life, Duration now);
  void end(Key& key);
  void let_lapse(const auto& is_lost);
  void forget_old(Duration now);
  void give_back_later(std::shared_ptr<Lease> lease, Duration at);

  std::atomic<bool> are_wanted_{false};
  std::atomic<std::uint32_t> endings_{0};
  std::atomic<std::uint32_t> changes_{0};          // under way
  std::atomic<std::int64_t> next_end_{INT64_MAX};  // boot time in microseconds
  ForkSafeMutex mutex_;
  std::unordered_map<OwnName, Key, Hash, Equal> keys_;                     // guarded by mutex_, as all below
  std::vector<std::pair<Duration, std::shared_ptr<Lease>>> to_give_back_;  // from this boot time on
  std::unordered_map<std::string, Counts> counts_;                         // by policy
  Duration looked_at_{};
};

}  // namespace overlimit::redis
