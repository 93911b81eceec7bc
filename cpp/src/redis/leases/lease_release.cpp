#include "redis/leases/lease_release.hpp"

#include "redis/plain/batch.hpp"

namespace overlimit::redis {
namespace {

using Releases = std::vector<std::unique_ptr<Exchange>>;

std::string key_of(const StoreClient& store, const ReleasedUnits& units) {
  const LeaseSubject& subject = units.lease->subject();
  return key_of(store.naming(), subject.policy, subject.identifier);
}

Releases all_releases(StoreClient& store, Leases& leases) {
  Releases releases;
  for (ReleasedUnits& each : leases.releases().take_due(boot_time()))
    releases.push_back(std::make_unique<LeaseRelease>(store, leases, std::move(each)));
  for (const auto& each : releases) each->prepare();
  return releases;
}

}  // namespace

LeaseRelease::LeaseRelease(StoreClient& store, Leases& leases, ReleasedUnits units)
    : Exchange(store, {key_of(store, units)}, unused_), leases_(leases), units_(std::move(units)) {}

ScriptCall LeaseRelease::encoded(const Extras& extras) {
  const Lease& lease = *units_.lease;
  return refund_call(lease.subject().packed, std::move(take_keys().front()), units_.units, lease.receipts(),
                     extras.reports == Reports::value, store_.scripts());
}

// What the server has lost is released once a call has brought it back; and what it did not execute, as it
// has no such script or the slot has moved, with the next command.
void LeaseRelease::arrived(std::optional<protocol::Reply>& reply) {
  const bool is_answered = reply && !reply->is_error();
  if (reply) leases_.releases().note_knows_script(is_answered);
  const bool is_refunded = is_answered ? was_refunded(*std::move(reply)) : !reply || is_final(*reply);
  if (!is_refunded) return leases_.releases().add(std::move(units_));
  leases_.releases().count(units_.lease->subject().policy, is_answered ? Units::returned : Units::lapsed,
                           units_.units);
}

// What somebody in between has answered is no reason to release the units once more, nor for the calls
// behind to fail.
bool LeaseRelease::was_refunded(protocol::Reply reply) {
  try {
    return accepts(std::move(reply));
  } catch (const ScriptError&) {
    return true;
  }
}

// What is released to a key that its server may have lost waits until a call has brought that back.
void Leases::add_releases(StoreClient& store, std::vector<std::unique_ptr<Exchange>>& releases) {
  const Duration now = boot_time();
  if (!releases_.may_be_due(now)) return;
  for (ReleasedUnits& each : releases_.take_due(now)) {
    bool is_suspect = false;
    const std::string key = key_of(store, each);
    store.for_each_observer([&](Observer& observer) { is_suspect |= observer.suspects(key); });
    if (is_suspect) {
      releases_.add(std::move(each));
    } else {
      releases.push_back(std::make_unique<LeaseRelease>(store, *this, std::move(each)));
    }
  }
}

// Those that were not executed, as their slots have moved, are run by themselves then.
void release_all(StoreClient& store, Leases& leases) {
  const Wait wait{store.servers().deadline()};
  const Releases all = all_releases(store, leases);
  Batch batch(store.servers());
  for (const auto& each : all)
    batch.add(each->script(), each->is_sent_with_text() ? Batch::By::text : Batch::By::name);
  batch.run(wait);
  for (std::size_t i = 0; i < all.size(); ++i) all[i]->arrived(batch.received(i));
  for (const auto& moved : all_releases(store, leases)) {
    std::optional<protocol::Reply> reply;
    try {
      reply = store.servers().run(moved->script(), wait);
    } catch (const StoreError&) {
    }
    moved->arrived(reply);
  }
  for (const ReleasedUnits& each : leases.releases().take_due(boot_time()))
    leases.releases().count(each.lease->subject().policy, Units::lapsed, each.units);
}

}  // namespace overlimit::redis
