#include "redis/plain/exchange.hpp"

#include <algorithm>
#include <utility>

#include "redis/plain/store_client.hpp"

namespace overlimit::redis {

void Exchange::prepare() {
  if (++attempts_ > 1) keys_ = std::move(script_.keys);
  observations_.clear();
  Extras extras;
  store_.for_each_observer([&](Observer& observer) {
    if (std::unique_ptr<Observation> observation = observer.observe_attempt(*this, extras))
      observations_.push_back(std::move(observation));
  });
  script_ = encoded(extras);
  script_.incarnations = std::move(extras.incarnations);
}

void Exchange::comes_after(const std::vector<std::string>& keys) {
  for (const auto& each : observations_) each->comes_after(keys);
}

void Exchange::lost() {
  for (const auto& each : observations_) each->lost();
}

// If the server's clock is in another period of a calendar, the call is made once more with its bounds.
bool Exchange::accepts(protocol::Reply reply) {
  reply_.emplace(std::move(reply), keys().size());
  is_lost_ = true;
  if (reply_->is_out_of_bounds()) {
    if (std::exchange(was_elsewhere_, true))
      throw ScriptError("the server's clock is in none of the periods that its calendar has around it",
                        false);
    move_to(reply_->now());
    return false;
  }
  Trust trust = Trust::trusted;
  for (const auto& each : observations_) trust = std::max(trust, each->judge(*reply_));
  is_lost_ = trust == Trust::lost || reply_->has(ReplyFlags::kOtherKeys);
  if (is_lost_ || (trust == Trust::suspect && !counts_if_suspect())) return false;
  read();
  return is_over_ = true;
}

DecideExchange::DecideExchange(StoreClient& store, const Call& call, const Rows& rows, Instant& time,
                               Basis& basis, bool is_part)
    : Exchange(store, keys_of(store.naming(), call), basis),
      call_(call, call.now ? *call.now : system_now()),
      rows_(rows),
      time_(time),
      is_part_(is_part) {}

ScriptCall DecideExchange::encoded(const Extras& extras) {
  if (extras.lease > 0 && may_charge(*call_))
    return lease_call(*call_, take_keys(), extras.lease, extras.term, store_.scripts(), extras.reports);
  return script_call(*call_, take_keys(), store_.scripts(), extras.reports);
}

std::optional<ScriptCall> DecideExchange::undoing() {
  if (is_lost_) return std::nullopt;
  const Answer answer = read_answer(call_, *reply_, rows_);
  const std::span receipts = rows_.receipts().first(pairs_of((*call_).charges));
  const auto is_charged = [](const Receipt& each) { return each.created_at != Instant{}; };
  if (!answer.is_written || std::ranges::none_of(receipts, is_charged)) return std::nullopt;
  std::vector<Charge> charges((*call_).charges.begin(), (*call_).charges.end());
  charges.front().cost += reply_->granted().value_or(0);
  Call charged = *call_;
  charged.charges = charges;
  return refund_call(charged, keys(), receipts, false, store_.scripts(), Of::keys_as_charged);
}

void DecideExchange::read() {
  const Answer answer = read_answer(call_, *reply_, rows_);
  time_ = answer.now;
  for (const auto& each : observations_) each->decided(*call_, *reply_, answer, rows_);
}

RefundExchange::RefundExchange(StoreClient& store, const Call& call, std::span<const Receipt> receipts,
                               Present* present, Basis& basis)
    : Exchange(store, keys_of(store.naming(), call), basis),
      call_(call),
      receipts_(receipts),
      present_(present) {}

ScriptCall RefundExchange::encoded(const Extras& extras) {
  const bool shows_present = present_ != nullptr || extras.reports == Reports::value;
  return refund_call(call_, take_keys(), receipts_, shows_present, store_.scripts());
}

// It has refunded something if any of its charges was made on a key as it is now: that was after the loss.
bool RefundExchange::counts_if_suspect() const {
  std::size_t row = 0;
  const std::vector<ScriptReply::Key> there = reply_->keys();
  for (std::size_t k = 0; k < there.size(); ++k) {
    if (values::are_of_one_key(receipts_[row].created_at.micros(), there[k].created_at)) return true;
    row += call_.charges[k].policy->size();
  }
  return false;
}

void RefundExchange::read() {
  if (present_ == nullptr) return;
  DatedCall peek({.charges = present_->charges, .mode = Mode::peek});
  present_->time = max(present_->time, read_answer(peek, *reply_, present_->rows).now);
}

LockExchange::LockExchange(StoreClient& store, const Call& call, Duration duration, Basis& basis)
    : Exchange(store, keys_of(store.naming(), call), basis), call_(call), duration_(duration) {}

ScriptCall LockExchange::encoded(const Extras& extras) {
  return lock_call(call_, take_keys(), duration_, store_.scripts(), extras.reports);
}

}  // namespace overlimit::redis
