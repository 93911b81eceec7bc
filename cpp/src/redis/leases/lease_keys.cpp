#include "redis/leases/lease_keys.hpp"

namespace overlimit::redis {
namespace {

/// How often keys that are no longer asked for are looked for.
constexpr Duration kPauseBetweenLooks{100'000};

}  // namespace

LeaseKeys::Locked::Locked(LeaseKeys& keys, Key& own, const Charge& charge) : key(own), demand(&own.demand) {
  if (keys.shared_of(own, charge) == nullptr) return;
  if (!lock(*keys.host_of(charge))) return;
  if (own.shared->is_of(*own.name)) share();
  keys.look_up(own, charge);
}

LeaseKeys::Locked::Locked(LeaseKeys& keys, Key& own, const Charge& charge, Duration now)
    : key(own), demand(&own.demand) {
  (void)keys.shared_of(own, charge);
  HostLeases* const host = keys.host_of(charge);
  if (host == nullptr || !lock(*host, HostLeases::BucketLock::kPatient)) return;
  own.shared = HostLeases::room_for(host->bucket_of(*own.name), *own.name, now);
  if (own.shared != nullptr && !own.shared->is_of(*own.name)) {
    const bool is_ours = own.shared->is_of_keyspace(own.name->keyspace);
    if (ReleasedUnits left = own.shared->take_lease(); is_ours) keys.releases_.add(std::move(left));
    own.shared->become(*own.name);
  }
  if (own.shared != nullptr) share();
  keys.look_up(own, charge);
}

bool LeaseKeys::Locked::lock(HostLeases& host, int times) {
  bucket_lock_.emplace(host.bucket_of(*key.name), host.processes(), times);
  return bool(*bucket_lock_);
}

void LeaseKeys::Locked::share() {
  shared = key.shared;
  demand = &shared->demand;
}

// What there is no room for is leased by this process alone.
HostLeases* LeaseKeys::host_of(const Charge& charge) {
  HostLeases* const host = file_.leases();
  return host != nullptr && HostKey::has_room_for(charge) ? host : nullptr;
}

LeaseKeys::Key* LeaseKeys::find(const Charge& charge) {
  const auto known = keys_.find(name_of(charge));
  if (known != keys_.end()) return &known->second;
  return host_of(charge) == nullptr ? nullptr : find_or_make(charge, boot_time());
}

LeaseKeys::Key* LeaseKeys::find_or_make(const Charge& charge, Duration now) {
  const auto known = keys_.find(name_of(charge));
  if (known != keys_.end()) return &known->second;
  if (keys_.size() >= kMostKeys) forget_old(now);
  if (keys_.size() >= kMostKeys) return nullptr;
  return &keys_.try_emplace(OwnKeyName(name_of(charge))).first->second;
}

// Where the file has the key under the limits of the charge; nullptr if it hasn't.
HostKey* LeaseKeys::shared_of(Key& key, const Charge& charge) {
  HostLeases* const host = host_of(charge);
  if (host == nullptr) return key.shared = nullptr;
  const std::uint64_t limits = charge.policy->limits_digest();
  if (!key.name) key.name = host->name_of(file_.keyspace(), charge.policy->name(), charge.identifier, limits);
  key.name->limits = limits;
  if (key.shared == nullptr || !key.shared->is_of(*key.name))
    key.shared = HostLeases::find(host->bucket_of(*key.name), *key.name);
  return key.shared;
}

void LeaseKeys::look_up(Key& key, const Charge& charge) {
  HostKey* const shared = shared_of(key, charge);
  if (key.lease && !key.lease->is_shared()) return;
  if (key.lease && key.lease->is_current() && key.lease->is_of(*charge.policy)) return;
  key.lease = shared == nullptr ? nullptr : shared->lease();
}

Demand& LeaseKeys::demand_of(Key& key, const Charge& charge) {
  HostKey* const shared = shared_of(key, charge);
  return shared == nullptr ? key.demand : shared->demand;
}

std::shared_ptr<Lease> LeaseKeys::erase(const KeyName& name) {
  const auto known = keys_.find(name);
  if (known == keys_.end()) return nullptr;
  std::shared_ptr<Lease> lease = std::move(known->second.lease);
  keys_.erase(known);
  return lease;
}

// Not for every key of a flood of others. What is leased together with others stays theirs.
void LeaseKeys::forget_old(Duration now) {
  if (now - looked_at_ < kPauseBetweenLooks) return;
  looked_at_ = now;
  for (auto each = keys_.begin(); each != keys_.end();) {
    Key& key = each->second;
    const Demand& demand = key.shared != nullptr ? key.shared->demand : key.demand;
    if (now > demand.cold_from) {
      releases_.add_rest(std::move(key.lease));
      each = keys_.erase(each);
    } else {
      ++each;
    }
  }
}

}  // namespace overlimit::redis
