// The calls of one store: what is decided here, what is asked of the servers, and what is given back.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "overlimit/redis_store.hpp"
#include "overlimit/store.hpp"
#include "redis/cross_slot/split_call.hpp"
#include "redis/leases/lease_give_backs.hpp"
#include "redis/leases/leasing_calls.hpp"
#include "redis/plain/exchange.hpp"
#include "redis/plain/servers.hpp"
#include "redis/recovery/recovery.hpp"
#include "redis/refusals/cached_refusals.hpp"
#include "redis/wire/keys.hpp"
#include "redis/wire/script.hpp"
#include "redis/wire/script_call.hpp"

namespace overlimit::redis {

/// The call at the instant that its clock reads now. The server reads its own.
inline Call with_reading(Call call) {
  call.now = call.reading();
  return call;
}

/// An instant that no call has.
inline constexpr Instant kUnasked{-1};

/// How often a call is asked for again because its server has forgotten, before it is believed.
inline constexpr int kMostDoubts = 16;

/// Thread-safe. Throws as Store does.
class Calls {
 public:
  using Slot = protocol::Slot;
  using Wait = transport::Wait;

  Calls(Location location, const RedisStore::Options& options);

  /// Whether a call was decided by what this process knows; then its rows, time and basis are set.
  bool decide_here(const Call& call, const Rows& rows, Instant& time, Basis& basis);
  /// Asks the servers, and returns when it was decided.
  Instant decide(const Call& call, const Rows& rows, Basis& basis, const Wait& wait);
  void decide_many(std::span<const Call> calls, const Rows& rows, std::span<Instant> times,
                   std::span<Basis> bases, const Wait& wait);
  void give_back(const Call& call, std::span<const Receipt> receipts, Present* present,
                 const Interrupted& interrupted);
  /// Locks the identifiers of a call, or with a duration of 0 unlocks them.
  void lock(const Call& call, Duration duration, const Interrupted& interrupted);
  void reset(const PolicyIdentity& policy, std::span<const std::string_view> identifiers,
             const Interrupted& interrupted);
  void reset_all(const PolicyIdentity& policy, const Interrupted& interrupted);
  /// Gives back all that is leased, and closes what is open.
  void close();
  [[nodiscard]] LeaseCounts leased(const PolicyIdentity& policy);

  [[nodiscard]] Servers& servers() { return servers_; }
  [[nodiscard]] CachedRefusals& known() { return known_; }
  [[nodiscard]] LeasingCalls& leasing() { return leasing_; }
  [[nodiscard]] Recovery& remembering() { return remembering_; }
  [[nodiscard]] ScriptCall script_call(const Call& call, Tells tells) const {
    return redis::script_call(call, keys_, scripts_, tells);
  }
  [[nodiscard]] ScriptCall lease_call(const Call& call, Cost extra, Duration life, Tells tells) const {
    return redis::lease_call(call, extra, life, keys_, scripts_, tells);
  }
  [[nodiscard]] ScriptCall refund_call(const Call& call, std::span<const Receipt> receipts,
                                       bool shows_present, Of of = Of::restored_keys) const {
    return redis::refund_call(call, receipts, shows_present, keys_, scripts_, of);
  }
  [[nodiscard]] ScriptCall lock_call(const Call& call, Duration duration, Tells tells) const {
    return redis::lock_call(call, duration, keys_, scripts_, tells);
  }
  [[nodiscard]] std::string key_of(const Charge& charge) const {
    return redis::key_of(keys_, charge.policy->name(), charge.identifier);
  }

 private:
  [[nodiscard]] bool are_tagged_alike(std::span<const Charge> charges) const;
  [[nodiscard]] std::vector<Slot> slots_across(std::span<const Charge> charges);
  std::optional<Instant> await_news(const Call& call, const Rows& rows, Basis& basis, const Wait& wait);
  void run(Exchange& exchange, const Wait& wait);
  protocol::Reply ask(Exchange& exchange, const Wait& wait);
  FirstError run(std::span<Exchange* const> exchanges, const Wait& wait);
  std::vector<Exchange*> ask(std::span<Exchange* const> exchanges, bool may_doubt, FirstError& failure,
                             const Wait& wait);
  enum class GiveBackTo : bool { keys_not_lost, all_keys };
  [[nodiscard]] GiveBacks give_backs(GiveBackTo keys = GiveBackTo::keys_not_lost);
  Instant decide_in_slot(const Call& call, const Rows& rows, Basis& basis, const Wait& wait);
  void decide_together(std::span<const Call> calls, const Rows& rows, std::span<Instant> times,
                       std::span<Basis> bases, const Wait& wait);
  Instant decide_across(const Call& call, std::span<const Slot> parts, const Rows& rows, Basis& basis,
                        const Wait& wait);
  [[nodiscard]] std::vector<Slot> parts_of(const Call& call);
  bool decide_cut_here(const Call& call, const Rows& rows, Instant& time, Basis& basis);
  std::optional<Instant> decide_cut(const Call& call, const Rows& rows, Basis& basis, const Wait& wait);
  void ask(SplitCall& split, std::size_t first, std::size_t charged, std::span<Instant> times, Basis& basis,
           const Wait& wait);
  bool take_back(SplitCall& split, Basis& basis, const Wait& wait);
  void take_back(const Call& call, std::span<const Receipt> receipts, Basis& basis, const Wait& wait);
  Instant decide_rest(const Call& call, const Rows& rows, Basis& basis, const Wait& wait);
  void follow(const Call& part, std::span<const Receipt> receipts, Basis& basis, const Wait& wait);
  void give_back_all(const Wait& wait);
  void follow_give_backs(const Wait& wait);
  [[nodiscard]] bool may_be_lost(const LeaseReturn& units);
  void restore(std::span<Exchange* const> exchanges, const Wait& wait);
  void undo(std::span<const ScriptCall> refunds, Basis& basis, const Wait& wait);
  void reset_remembered(const std::vector<std::string>& keys, const Interrupted& interrupted);
  bool put_back(const Call& call, std::span<const Receipt> receipts, const Interrupted& interrupted);
  void give_back_across(const Call& call, std::span<const Slot> slots, std::span<const Receipt> receipts,
                        Present* present, const Wait& wait);

  const KeyNaming keys_;
  Servers servers_;
  CachedRefusals known_;
  LeasingCalls leasing_;
  Recovery remembering_;
  std::atomic<bool> is_refund_known_{false};
  const Scripts scripts_;
  RecentRefusals refusals_;
};

}  // namespace overlimit::redis
