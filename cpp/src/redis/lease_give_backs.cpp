#include "redis/lease_give_backs.hpp"

namespace overlimit::redis {

GiveBacks::GiveBacks(Leases* leases, std::vector<LeaseReturn> returns, const KeyNaming& keys,
                     const Scripts& scripts, std::atomic<bool>& is_script_known, Remembering& remembering,
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

// The first goes with its text, as it is not sent again.
void GiveBacks::append_to(std::vector<std::string>& commands,
                          std::vector<std::optional<protocol::Slot>>& slots, Servers& servers) const {
  const bool is_known = is_script_known_.load(std::memory_order_relaxed);
  for (const ScriptCall& script : scripts_) {
    commands.push_back(is_known ? script.evalsha() : script.eval());
    slots.push_back(servers.slot_of(script.keys.front()));
  }
}

void GiveBacks::precede(Telling& telling) const {
  for (const ScriptCall& script : scripts_) telling.comes_after_change(script.keys.front());
}

// What the server has forgotten goes back once a call has brought it back; and what it did not execute, as it
// has no such script or the slot has moved, with the next command.
void GiveBacks::read(std::span<std::optional<protocol::Reply>> replies) {
  for (std::size_t i = 0; i < returns_.size(); ++i) {
    const bool is_answered = replies[i] && !replies[i]->is_error();
    const bool is_executed = !replies[i] || is_final(*replies[i]);
    if (replies[i]) is_script_known_.store(is_answered, std::memory_order_relaxed);
    bool is_given = is_executed;
    if (is_answered && !hearings_.empty()) {
      const ScriptReply told(*std::move(replies[i]), 1);
      is_given = hearings_[i].hear(told) != Belief::lost && !told.has(ReplyFlags::kOtherKeys);
    }
    if (!is_given) {
      leases_->give_back(std::move(returns_[i]));
    } else {
      leases_->count(returns_[i].lease->subject().policy,
                     is_answered ? RedisStore::Units::returned : RedisStore::Units::lapsed,
                     returns_[i].units);
    }
  }
}

}  // namespace overlimit::redis
