#include "redis/leases/leases.hpp"

#include <algorithm>
#include <mutex>

#include "redis/leases/lease_request.hpp"
#include "redis/plain/exchange.hpp"

namespace overlimit::redis {
namespace {

/// How often keys that are no longer asked for are looked for.
constexpr Duration kPauseBetweenLooks{100'000};

}  // namespace

/// In the file, of the key as it is there now: another process may have put a lease.
struct Leases::LockedKey : NonCopyable {
  LockedKey(Leases& leases, Key& own, const Charge& charge) : key(own), demand(&own.demand) {
    if (leases.shared_of(own, charge) == nullptr) return;
    if (!lock(*leases.host_of(charge))) return;
    if (own.shared->is_of(*own.name)) share();
    leases.look_up(own, charge);
  }
  /// The same, and the key is made in the file, as far as there is room. Others are waited for a little.
  LockedKey(Leases& leases, Key& own, const Charge& charge, Duration now) : key(own), demand(&own.demand) {
    (void)leases.shared_of(own, charge);
    HostLeases* const host = leases.host_of(charge);
    if (host == nullptr || !lock(*host, HostLeases::BucketLock::kPatient)) return;
    own.shared = HostLeases::room_for(host->bucket_of(*own.name), *own.name, now);
    if (own.shared != nullptr && !own.shared->is_of(*own.name)) {
      const bool is_ours = own.shared->is_of_keyspace(own.name->keyspace);
      if (ReleasedUnits left = own.shared->take_lease(); is_ours) leases.releases_.add(std::move(left));
      own.shared->become(*own.name);
    }
    if (own.shared != nullptr) share();
    leases.look_up(own, charge);
  }
  /// Whether nobody else changes it.
  explicit operator bool() const { return !bucket_lock_ || bool(*bucket_lock_); }

  Key& key;
  Demand* demand;
  HostKey* shared = nullptr;

 private:
  bool lock(HostLeases& host, int times = 0) {
    bucket_lock_.emplace(host.bucket_of(*key.name), host.processes(), times);
    return bool(*bucket_lock_);
  }
  void share() {
    shared = key.shared;
    demand = &shared->demand;
  }

  std::optional<HostLeases::BucketLock> bucket_lock_;
};

// For stores that do not lease.
std::unique_ptr<Observation> Leases::observe_attempt(const Exchange& exchange, Extras& /*extras*/) {
  return exchange.deciding() != nullptr ? std::make_unique<NotingCharges>(*this, false) : nullptr;
}

std::unique_ptr<Observation> Leases::observe_change(const Change& change) {
  return change.kind == Change::Kind::other ? nullptr : std::make_unique<EndingLeases>(*this, change);
}

// What there is no room for is leased by this process alone.
HostLeases* Leases::host_of(const Charge& charge) {
  HostLeases* const host = file_.leases();
  return host != nullptr && HostKey::has_room_for(charge) ? host : nullptr;
}

// The key of a charge, if anything is known of it: others of the host may know something.
Leases::Key* Leases::find_key(const Charge& charge) {
  const auto known = keys_.find(name_of(charge));
  if (known != keys_.end()) return &known->second;
  return host_of(charge) == nullptr ? nullptr : key_for(charge, boot_time());
}

// The key of a charge, which is made; nullptr if there is no room.
Leases::Key* Leases::key_for(const Charge& charge, Duration now) {
  const auto known = keys_.find(name_of(charge));
  if (known != keys_.end()) return &known->second;
  if (keys_.size() >= kMostKeys) forget_old(now);
  if (keys_.size() >= kMostKeys) return nullptr;
  return &keys_.try_emplace(OwnKeyName(name_of(charge))).first->second;
}

// Where the file has the key under the limits of the charge; nullptr if it hasn't.
HostKey* Leases::shared_of(Key& key, const Charge& charge) {
  HostLeases* const host = host_of(charge);
  if (host == nullptr) return key.shared = nullptr;
  const std::uint64_t limits = charge.policy->limits_digest();
  if (!key.name) key.name = host->name_of(file_.keyspace(), charge.policy->name(), charge.identifier, limits);
  key.name->limits = limits;
  if (key.shared == nullptr || !key.shared->is_of(*key.name))
    key.shared = HostLeases::find(host->bucket_of(*key.name), *key.name);
  return key.shared;
}

// Has a key know the lease that its processes spend now.
void Leases::look_up(Key& key, const Charge& charge) {
  HostKey* const shared = shared_of(key, charge);
  if (key.lease && !key.lease->is_shared()) return;
  if (key.lease && key.lease->is_current() && key.lease->is_of(*charge.policy)) return;
  key.lease = shared == nullptr ? nullptr : shared->lease();
}

Demand& Leases::demand_of(Key& key, const Charge& charge) {
  HostKey* const shared = shared_of(key, charge);
  return shared == nullptr ? key.demand : shared->demand;
}

Leases::Found Leases::find(const Charge& charge, Duration longest_pause) {
  const std::lock_guard lock(mutex_);
  Key* const key = find_key(charge);
  if (key == nullptr) return {};
  look_up(*key, charge);
  const Demand& demand = demand_of(*key, charge);
  if (!demand.waits_to_ask(charge)) return {key->lease, {}};
  return {key->lease, min(Duration(demand.next_ask_at), Duration(demand.asked_at) + longest_pause)};
}

bool Leases::is_wanted(const Charge& charge, Duration term, Duration now, bool has_holds) {
  const std::lock_guard lock(mutex_);
  Key* const key = find_key(charge);
  if (key == nullptr) return false;
  const Cost spent = key->lease ? key->lease->spent() : 0;
  return demand_of(*key, charge).wanted(charge.cost, spent, term, now, has_holds) > 0;
}

Leases::Request Leases::ask(const Charge& charge, Duration term, Duration now, Duration patience,
                            bool has_holds) {
  const std::lock_guard lock(mutex_);
  Request request{0, endings_.load(), 0};
  Key* const key = find_key(charge);
  if (key == nullptr) return request;
  LockedKey locked(*this, *key, charge);
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
    HostLeases& host = *file_.leases();
    locked.shared->request = request.number = host.next_request();
    releases_.add(host.take_ended(file_.keyspace(), now));
  }
  return request;
}

// What was under way while leases were ended has ended, too; and what an earlier request is granted is
// late.
void Leases::answered(const Charge& charge, std::optional<LeaseTerms> terms, Duration asked_at,
                      const Request& request, bool is_refused, Duration cold_from) {
  if (terms) releases_.count(charge.policy->name(), Units::granted, terms->granted);
  if (terms && host_of(charge) != nullptr)
    releases_.count(charge.policy->name(), Units::spent, terms->granted);
  const std::lock_guard lock(mutex_);
  const bool is_void = request.endings != endings_.load() || changes_.load() > 0;
  const auto refuse = [&] {
    if (!terms) return;
    release_now(std::make_shared<Lease>(LeaseSubject(charge), *std::exchange(terms, std::nullopt)));
  };
  if (is_void) refuse();
  Key* const key = key_for(charge, asked_at);
  if (key == nullptr) return refuse();
  LockedKey locked(*this, *key, charge, asked_at);
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
  Key* const key = find_key(charge);
  if (key == nullptr) return;
  LockedKey locked(*this, *key, charge);
  if (locked && key->lease != nullptr && !key->lease->covers(charge)) end(locked);
}

void Leases::end(std::string_view policy, std::string_view identifier, Rest rest) {
  const std::lock_guard lock(mutex_);
  endings_.fetch_add(1);
  HostLeases::Releases left;
  if (HostLeases* const host = file_.leases()) left = host->end(file_.keyspace(), policy, identifier);
  const auto own = keys_.find(KeyName{policy, identifier});
  std::shared_ptr<Lease> lease;
  if (own != keys_.end()) {
    lease = std::move(own->second.lease);
    keys_.erase(own);
  }
  if (rest == Rest::released) {
    releases_.add(std::move(left));
    if (lease) release_now(std::move(lease));
  } else {
    releases_.forget(
        [&](const LeaseSubject& each) { return each.policy == policy && each.identifier == identifier; });
  }
}

void Leases::end_all(std::string_view policy, Rest rest) {
  const std::lock_guard lock(mutex_);
  endings_.fetch_add(1);
  HostLeases::Releases left;
  if (HostLeases* const host = file_.leases()) left = host->end_all(file_.keyspace(), policy);
  if (rest == Rest::released) {
    releases_.add(std::move(left));
  } else {
    releases_.forget([&](const LeaseSubject& each) { return each.policy == policy; });
  }
  std::erase_if(keys_, [&](auto& each) {
    if (each.first.policy != policy) return false;
    if (each.second.lease && rest == Rest::released) release_now(std::move(each.second.lease));
    return true;
  });
}

void Leases::end_all() {
  const std::lock_guard lock(mutex_);
  endings_.fetch_add(1);
  for (auto& [name, key] : keys_) {
    if (key.lease && !key.lease->is_shared()) release_now(std::move(key.lease));
  }
  keys_.clear();
  if (HostLeases* const host = file_.leases(); file_.leave() && host != nullptr)
    releases_.add(host->take_all(file_.keyspace()));
}

// It is found no more; whoever has found it already may still spend of it, as of one that has just ended.
void Leases::end(LockedKey& locked) {
  Key& key = locked.key;
  locked.demand->asked = sum(locked.demand->asked, key.lease->spent());
  if (locked.shared != nullptr && key.lease->is_shared()) releases_.add(locked.shared->take_lease());
  release_now(std::move(key.lease));
}

// Of what others spend, too, whoever takes it from the file releases the rest.
void Leases::release_now(std::shared_ptr<Lease> lease) {
  if (!lease->is_shared()) releases_.add(std::move(lease), {});
}

// Not for every key of a flood of others. What is leased together with others stays theirs.
void Leases::forget_old(Duration now) {
  if (now - looked_at_ < kPauseBetweenLooks) return;
  looked_at_ = now;
  for (auto each = keys_.begin(); each != keys_.end();) {
    Key& key = each->second;
    const Demand& demand = key.shared != nullptr ? key.shared->demand : key.demand;
    if (now > demand.cold_from) {
      if (key.lease && !key.lease->is_shared()) release_now(std::move(key.lease));
      each = keys_.erase(each);
    } else {
      ++each;
    }
  }
}

}  // namespace overlimit::redis
