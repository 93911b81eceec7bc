#include "redis/leases/leases.hpp"

#include <algorithm>
#include <mutex>

#include "redis/leases/lease_request.hpp"
#include "redis/plain/exchange.hpp"

namespace overlimit::redis {

// For stores that do not lease.
std::unique_ptr<Observation> Leases::observe_attempt(const Exchange& exchange, Extras& /*extras*/) {
  return exchange.deciding() != nullptr ? std::make_unique<NotingCharges>(*this, false) : nullptr;
}

std::unique_ptr<Observation> Leases::observe_change(const Change& change) {
  return change.kind == Change::Kind::other ? nullptr : std::make_unique<EndingLeases>(*this, change);
}

Leases::Found Leases::find(const Charge& charge, Duration longest_pause) {
  const std::lock_guard lock(mutex_);
  LeaseKeys::Key* const key = keys_.find(charge);
  if (key == nullptr) return {};
  keys_.look_up(*key, charge);
  const Demand& demand = keys_.demand_of(*key, charge);
  if (!demand.waits_to_ask(charge)) return {key->lease, {}};
  return {key->lease, min(Duration(demand.next_ask_at), Duration(demand.asked_at) + longest_pause)};
}

bool Leases::is_wanted(const Charge& charge, Duration term, Duration now, bool has_holds) {
  const std::lock_guard lock(mutex_);
  LeaseKeys::Key* const key = keys_.find(charge);
  if (key == nullptr) return false;
  const Cost spent = key->lease ? key->lease->spent() : 0;
  return keys_.demand_of(*key, charge).wanted(charge.cost, spent, term, now, has_holds) > 0;
}

Leases::Request Leases::ask(const Charge& charge, Duration term, Duration now, Duration patience,
                            bool has_holds) {
  const std::lock_guard lock(mutex_);
  Request request{0, endings_.load(), 0};
  LeaseKeys::Key* const key = keys_.find(charge);
  if (key == nullptr) return request;
  LeaseKeys::Locked locked(keys_, *key, charge);
  if (!locked) return request;
  Demand& demand = *locked.demand;
  const Cost spent = key->lease ? key->lease->spent() : 0;
  request.extra = demand.wanted(charge.cost, spent, term, now, has_holds);
  if (locked.shared != nullptr) request.extra = std::min(request.extra, SharedUnits::kMost);
  if (key->lease && (request.extra > 0 || !key->lease->covers(charge))) end(locked);
  if (request.extra == 0) return request;
  demand.refilled_by = now + patience;
  if (demand.waits_to_ask(charge)) demand.next_ask_at = now + term;
  if (locked.shared != nullptr) {
    HostLeases& host = *keys_.file().leases();
    locked.shared->request = request.number = host.next_request();
    releases_.add(host.take_ended(keys_.file().keyspace(), now));
  }
  return request;
}

// What was under way while leases were ended has ended, too; and what an earlier request is granted is
// late.
void Leases::answered(const Charge& charge, std::optional<LeaseTerms> terms, Duration asked_at,
                      const Request& request, bool is_refused, Duration cold_from) {
  if (terms) releases_.count(charge.policy->name(), Units::granted, terms->granted);
  if (terms && keys_.host_of(charge) != nullptr)
    releases_.count(charge.policy->name(), Units::spent, terms->granted);
  const std::lock_guard lock(mutex_);
  const bool is_void = request.endings != endings_.load() || changes_.load() > 0;
  const auto refuse = [&] {
    if (!terms) return;
    releases_.add_rest(std::make_shared<Lease>(LeaseSubject(charge), *std::exchange(terms, std::nullopt)));
  };
  if (is_void) refuse();
  LeaseKeys::Key* const key = keys_.find_or_make(charge, asked_at);
  if (key == nullptr) return refuse();
  LeaseKeys::Locked locked(keys_, *key, charge, asked_at);
  if (!locked || (locked.shared != nullptr && request.extra > 0 && locked.shared->request != request.number))
    return refuse();
  Demand& demand = *locked.demand;
  if (request.extra == 0 && key->lease != nullptr) {
    demand.asked = sum(demand.asked, is_refused ? 0 : charge.cost);
    return;
  }
  demand.note_command(is_refused ? 0 : charge.cost, asked_at, cold_from);
  if (request.extra == 0) return;
  demand.refilled_by = Duration{};
  demand.note_refusal(charge, is_refused);
  demand.next_ask_at = cold_from;
  if (key->lease) end(locked);
  if (!terms) return;
  if (locked.shared != nullptr) {
    releases_.add(locked.shared->put(LeaseSubject(charge), *terms));
    key->lease = locked.shared->lease();
  } else {
    key->lease = std::make_shared<Lease>(LeaseSubject(charge), *std::move(terms));
  }
  if (key->lease) releases_.add(key->lease, key->lease->ends_at());
}

void Leases::end_too_small(const Charge& charge) {
  const std::lock_guard lock(mutex_);
  LeaseKeys::Key* const key = keys_.find(charge);
  if (key == nullptr) return;
  LeaseKeys::Locked locked(keys_, *key, charge);
  if (locked && key->lease != nullptr && !key->lease->covers(charge)) end(locked);
}

void Leases::end(std::string_view policy, std::string_view identifier, Rest rest) {
  const std::lock_guard lock(mutex_);
  endings_.fetch_add(1);
  HostLeases::Releases left;
  if (HostLeases* const host = keys_.file().leases())
    left = host->end(keys_.file().keyspace(), policy, identifier);
  std::shared_ptr<Lease> lease = keys_.erase({policy, identifier});
  if (rest == Rest::released) {
    releases_.add(std::move(left));
    releases_.add_rest(std::move(lease));
  } else {
    releases_.forget(
        [&](const LeaseSubject& each) { return each.policy == policy && each.identifier == identifier; });
  }
}

void Leases::end_all(std::string_view policy, Rest rest) {
  const std::lock_guard lock(mutex_);
  endings_.fetch_add(1);
  HostLeases::Releases left;
  if (HostLeases* const host = keys_.file().leases()) left = host->end_all(keys_.file().keyspace(), policy);
  if (rest == Rest::released) {
    releases_.add(std::move(left));
  } else {
    releases_.forget([&](const LeaseSubject& each) { return each.policy == policy; });
  }
  keys_.erase_if([&](const OwnKeyName& name, const LeaseKeys::Key& key) {
    if (name.policy != policy) return false;
    if (rest == Rest::released) releases_.add_rest(key.lease);
    return true;
  });
}

void Leases::end_all() {
  const std::lock_guard lock(mutex_);
  endings_.fetch_add(1);
  keys_.erase_if([&](const OwnKeyName&, const LeaseKeys::Key& key) {
    releases_.add_rest(key.lease);
    return true;
  });
  if (HostLeases* const host = keys_.file().leases(); keys_.file().leave() && host != nullptr)
    releases_.add(host->take_all(keys_.file().keyspace()));
}

// It is found no more; whoever has found it already may still spend of it, as of one that has just ended.
void Leases::end(LeaseKeys::Locked& locked) {
  LeaseKeys::Key& key = locked.key;
  locked.demand->asked = sum(locked.demand->asked, key.lease->spent());
  if (locked.shared != nullptr && key.lease->is_shared()) releases_.add(locked.shared->take_lease());
  releases_.add_rest(std::move(key.lease));
}

}  // namespace overlimit::redis
