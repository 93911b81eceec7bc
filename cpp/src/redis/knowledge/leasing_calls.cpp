#include "redis/knowledge/leasing_calls.hpp"

#include <algorithm>

#include "overlimit/algorithms/leasing.hpp"
#include "overlimit/pair.hpp"

namespace overlimit::redis {
namespace {

bool can_be_leased(const Call& call) {
  const Charge& charge = call.charges.front();
  return call.charges.size() == 1 && charge.role == Role::enforce && charge.cost > 0 && !call.now &&
         call.clock == nullptr;
}

/// Until when units count the same that led to these states, whenever they were charged.
Instant same_until(const Charge& charge, const Rows& rows) {
  Instant until = kMaxTime;
  for (std::size_t i = 0; i < charge.policy->size(); ++i) {
    until = min(until, with_algorithm(charge.policy->limits()[i].limit, [&](const auto& limit) {
                  using State = typename std::decay_t<decltype(limit)>::State;
                  return leasing::until(limit, state_from<State>(rows.receipt[i].after));
                }));
  }
  return until;
}

/// The boot time at which a server's clock may show this, at the earliest.
Duration reached_at(Instant instant, const ServerReading& told) {
  const std::int64_t left = (instant - told.shown - Duration(5)).micros();
  return left <= 0 ? told.asked_at : told.asked_at + Duration(left - ceil_div(left, 9));
}

}  // namespace

Duration longest_lease(const CompiledPolicy& policy) {
  if (policy.penalty() != nullptr) return {};
  Duration longest = leasing::kUnbounded;
  for (const CompiledLimit& each : policy.limits()) {
    longest =
        min(longest, with_algorithm(each.limit, [](const auto& limit) { return leasing::longest(limit); }));
  }
  return longest;
}

LeasingCalls::LeasingCalls(const Location& location, const RedisStore::Keys& keys, Duration longest)
    : longest_(longest), leases_([location, keys, this] {
        auto leases = Leases::of(location, keys);
        if (is_on()) leases->want();
        return std::make_unique<std::shared_ptr<Leases>>(std::move(leases));
      }) {
  (void)*leases_;
}

bool LeasingCalls::may_lease(const Call& call) const {
  return is_on() && call.mode == Mode::consume && can_be_leased(call);
}

// Units are taken first and the clock is read after that, so that who is stopped in between spends nothing.
bool LeasingCalls::spend(const Call& call, const Rows& rows, Instant& time, Basis& basis) {
  if (!is_on() || !can_be_leased(call)) return false;
  const Charge& charge = call.charges.front();
  const std::shared_ptr<Lease> lease = (**leases_).find(charge);
  if (lease == nullptr || !lease->is_of(*charge.policy)) return false;
  Cost left = lease->left() - charge.cost;
  if (call.mode == Mode::peek ? left < 0 : !lease->take(charge.cost, left)) return false;
  const Duration now = boot_time();
  if (lease->has_ended(now)) {
    if (call.mode == Mode::consume) lease->put_back(charge.cost);
    return false;
  }
  time = lease->time(now);
  lease->show(time, left, rows);
  basis.source = Source::lease;
  return true;
}

Duration LeasingCalls::next_turn(const Call& call) {
  if (!may_lease(call)) return {};
  return (**leases_).next_turn(call.charges.front());
}

bool LeasingCalls::refuse_until(const Call& call, Duration turn, const Rows& rows, Instant& time,
                                Basis& basis) {
  const Charge& charge = call.charges.front();
  const std::shared_ptr<Lease> lease = (**leases_).find(charge);
  const Duration now = boot_time();
  if (now >= turn || lease == nullptr || !lease->is_of(*charge.policy)) return false;
  time = lease->time(now);
  lease->show_refused(time, turn - now, rows);
  basis.source = Source::refusal;
  return true;
}

bool LeasingCalls::put_back(const Call& call, std::span<const Receipt> receipts) {
  if (wanted() == nullptr || !can_be_leased(call)) return false;
  const Charge& charge = call.charges.front();
  const std::shared_ptr<Lease> lease = (**leases_).find(charge);
  if (lease == nullptr || !lease->is_charged_by(receipts) || lease->has_ended(boot_time())) return false;
  lease->put_back(charge.cost);
  return true;
}

LeaseRequest::LeaseRequest(LeasingCalls& leasing, const Call& call) {
  if (!leasing.may_lease(call)) return;
  const Charge& charge = call.charges.front();
  longest_ = leasing.longest_;
  life_ = min(longest_, longest_lease(*charge.policy));
  if (life_ == Duration{}) return;
  leases_ = &**leasing.leases_;
  asked_at_ = boot_time();
  extra_ = leases_->ask(charge, life_, asked_at_);
}

// A lease that would have ended by now is given back with the next command.
void LeaseRequest::answered(const Call& call, Instant shown, std::optional<Cost> granted, const Rows& rows) {
  if (leases_ == nullptr) return;
  const Charge& charge = call.charges.front();
  const bool is_refused =
      rows.status[0] != Status::ok || !std::all_of(rows.status, rows.status + charge.policy->size(),
                                                   [](Status each) { return each == Status::ok; });
  std::shared_ptr<Lease> lease;
  if (granted) {
    const ServerReading told{shown, asked_at_, boot_time()};
    const Instant until = min(same_until(charge, rows), shown + longest_);
    lease = std::make_shared<Lease>(charge, told, reached_at(until, told), rows, *granted);
  }
  leases_->answered(charge, lease, asked_at_, extra_, is_refused, asked_at_ + life_);
  if (lease != nullptr) {
    for (std::size_t i = 0; i < charge.policy->size(); ++i) rows.remaining[i] += *granted;
  }
}

}  // namespace overlimit::redis
