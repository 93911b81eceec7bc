#include "redis/leases/lease_give_backs.hpp"

namespace overlimit::redis {

GiveBacks::GiveBacks(Leases* leases, std::vector<LeaseReturn> returns, const KeyNaming& keys,
                     const Scripts& scripts, std::atomic<bool>& is_script_known, Recovery& remembering,
                     Servers& servers)
    : leases_(leases), returns_(std::move(returns)), is_script_known_(is_script_known) {
  for (const auto& [lease, units] : returns_) {
    const bool tells = remembering.is_on();
    const LeaseSubject& of = lease->subject();
    scripts_.push_back(
        refund_call({of.policy, of.identifier, of.packed}, units, lease->receipts(), tells, keys, scripts));
    if (!tells) continue;
    hearings_.emplace_back(remembering, servers, scripts_.back().keys);
    scripts_.back().births = hearings_.back().births();
  }
}

// Those that the server may lack the script for go with its text, as they are not sent again.
void GiveBacks::add_to(Batch& batch) const {
  const bool is_known = is_script_known_.load(std::memory_order_relaxed);
  for (const ScriptCall& script : scripts_) batch.add(script, is_known ? Batch::By::name : Batch::By::text);
}

void GiveBacks::precede(Telling& telling) const {
  for (const ScriptCall& script : scripts_) telling.comes_after_change(script.keys.front());
}

// What the server has forgotten goes back once a call has brought it back; and what it did not execute, as it
// has no such script or the slot has moved, with the next command.
void GiveBacks::read(Batch& batch) {
  for (std::size_t i = 0; i < returns_.size(); ++i) read(i, batch.received(i));
}

void GiveBacks::read(std::size_t i, std::optional<protocol::Reply>& reply) {
  LeaseReturn& units = returns_[i];
  const bool is_answered = reply && !reply->is_error();
  if (reply) is_script_known_.store(is_answered, std::memory_order_relaxed);
  bool is_given = !reply || is_final(*reply);
  if (is_answered && !hearings_.empty()) {
    const ScriptReply told(*std::move(reply), 1);
    is_given = hearings_[i].hear(told) != Trust::lost && !told.has(ReplyFlags::kOtherKeys);
  }
  if (!is_given) return leases_->give_back(std::move(units));
  leases_->count(units.lease->subject().policy,
                 is_answered ? RedisStore::Units::returned : RedisStore::Units::lapsed, units.units);
}

}  // namespace overlimit::redis
