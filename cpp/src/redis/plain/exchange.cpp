#include "redis/plain/exchange.hpp"

#include <algorithm>

#include "redis/calls.hpp"

namespace overlimit::redis {

void Exchange::prepare(bool may_doubt) {
  const bool remembers = store_.remembering().remembers(call());
  script_ = encoded(remembers ? Tells::value : Tells::charge);
  begin();
  may_doubt_ = may_doubt;
  hearing_.reset();
  if (!remembers) return;
  hearing_.emplace(store_.remembering(), store_.servers(), script_.keys);
  if (may_doubt && checks_births()) script_.births = hearing_->births();
}

// If the server's clock is in another period of a calendar, the call is made once more with its bounds.
bool Exchange::hears(protocol::Reply reply) {
  reply_.emplace(std::move(reply), script_.keys.size());
  is_lost_ = true;
  if (reply_->is_out_of_bounds()) {
    if (std::exchange(was_elsewhere_, true))
      throw ScriptError("the server's clock is in none of the periods that its calendar has around it",
                        false);
    call_.move_to(reply_->now());
    return false;
  }
  if (hearing_ && !may_doubt_) hearing_->keep(*reply_);
  if (hearing_ && may_doubt_) {
    const Trust trust = hearing_->hear(*reply_);
    is_lost_ = trust == Trust::lost || reply_->has(ReplyFlags::kOtherKeys);
    if (is_lost_ || (trust == Trust::suspect && !counts_in_doubt())) return false;
  }
  read();
  return is_over_ = true;
}

Deciding::Deciding(Calls& store, const Call& call, const Rows& rows, Instant& time, Basis& basis,
                   bool tells_all)
    : Exchange(store, call, call.now ? *call.now : system_now(), basis),
      rows_(rows),
      time_(time),
      tells_all_(tells_all) {}

ScriptCall Deciding::encoded(Tells tells) {
  if (!anybody_wants_to_know.load(std::memory_order_relaxed)) return store_.script_call(call(), tells);
  lease_.emplace(store_.leasing(), call());
  if (lease_->extra() == 0 || !may_charge(call())) return store_.script_call(call(), tells);
  return store_.lease_call(call(), lease_->extra(), lease_->life(), tells);
}

void Deciding::begin() {
  if (lease_) telling_.emplace(store_.known(), script().keys);
}

void Deciding::follows(const GiveBacks& before) {
  if (telling_) before.precede(*telling_);
}

void Deciding::lost() {
  if (lease_) lease_->lost(call());
}

std::optional<ScriptCall> Deciding::undoing() {
  if (is_lost_) return std::nullopt;
  const Answer answer = read_answer(call_, *reply_, rows_);
  const std::span receipts = rows_.receipts().first(pairs_of(call().charges));
  const auto is_charged = [](const Receipt& each) { return each.created_at != Instant{}; };
  if (!answer.is_written || std::ranges::none_of(receipts, is_charged)) return std::nullopt;
  std::vector<Charge> charges(call().charges.begin(), call().charges.end());
  charges.front().cost += reply_->granted().value_or(0);
  Call charged = call();
  charged.charges = charges;
  return store_.refund_call(charged, receipts, false, Of::keys_as_charged);
}

void Deciding::read() {
  const Answer answer = read_answer(call_, *reply_, rows_);
  time_ = answer.now;
  if (!lease_) return;
  telling_->tell(call(), answer, rows_, tells_all_);
  lease_->answered(call(), answer.now, reply_->granted(), rows_);
  store_.leasing().show_held(call(), rows_);
}

Refunding::Refunding(Calls& store, const Call& call, std::span<const Receipt> receipts, Present* present,
                     Basis& basis)
    : Exchange(store, call, basis), receipts_(receipts), present_(present) {}

ScriptCall Refunding::encoded(Tells tells) {
  ScriptCall script = store_.refund_call(call(), receipts_, present_ != nullptr || tells == Tells::value);
  if (!changing_) changing_.emplace(store_.known(), script.keys);
  return script;
}

// It has given something back if any of its charges was made on a key as it is now: that was after the doubt.
bool Refunding::counts_in_doubt() const {
  std::size_t row = 0;
  const std::vector<ScriptReply::Key> keys = reply_->keys();
  for (std::size_t k = 0; k < keys.size(); ++k) {
    if (are_of_one_key(receipts_[row].created_at.micros(), keys[k].created_at)) return true;
    row += call().charges[k].policy->size();
  }
  return false;
}

void Refunding::read() {
  if (present_ == nullptr) return;
  DatedCall peek({.charges = present_->charges, .mode = Mode::peek});
  present_->time = max(present_->time, read_answer(peek, *reply_, present_->rows).now);
}

Locking::Locking(Calls& store, const Call& call, Duration duration, Basis& basis)
    : Exchange(store, call, basis), duration_(duration) {}

ScriptCall Locking::encoded(Tells tells) {
  ScriptCall script = store_.lock_call(call(), duration_, tells);
  if (!changing_) changing_.emplace(store_.known(), script.keys);
  return script;
}

}  // namespace overlimit::redis
