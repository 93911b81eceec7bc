#include "redis/leases/returning.hpp"

#include "redis/plain/batch.hpp"

namespace overlimit::redis {
namespace {

using Returns = std::vector<std::unique_ptr<Exchange>>;

std::string key_of_return(const PlainCalls& store, const LeaseReturn& units) {
  const LeaseSubject& subject = units.lease->subject();
  return key_of(store.naming(), subject.policy, subject.identifier);
}

Returns all_returns(PlainCalls& store, Leases& leases) {
  Returns returns;
  for (LeaseReturn& each : leases.take_ended(boot_time()))
    returns.push_back(std::make_unique<Returning>(store, leases, std::move(each)));
  for (const auto& each : returns) each->prepare(store);
  return returns;
}

}  // namespace

Returning::Returning(PlainCalls& store, Leases& leases, LeaseReturn units)
    : Exchange({key_of_return(store, units)}, unused_),
      store_(store),
      leases_(leases),
      units_(std::move(units)) {}

ScriptCall Returning::encoded(const Extras& extras) {
  const Lease& lease = *units_.lease;
  return refund_call(lease.subject().packed, keys().front(), units_.units, lease.receipts(),
                     extras.reports == Reports::value, store_.scripts());
}

// What the server has lost goes back once a call has brought it back; and what it did not execute, as it has
// no such script or the slot has moved, with the next command.
void Returning::arrived(std::optional<protocol::Reply>& reply) {
  const bool is_answered = reply && !reply->is_error();
  if (reply) leases_.note_knows_refunds(is_answered);
  const bool is_given = is_answered ? was_given(*std::move(reply)) : !reply || is_final(*reply);
  if (!is_given) return leases_.give_back(std::move(units_));
  leases_.count(units_.lease->subject().policy, is_answered ? Units::returned : Units::lapsed, units_.units);
}

// What somebody in between has answered is no reason to give the units back once more, nor for the calls
// behind to fail.
bool Returning::was_given(protocol::Reply reply) {
  try {
    return hears(std::move(reply));
  } catch (const ScriptError&) {
    return true;
  }
}

// What goes to a key that its server may have lost waits until a call has brought that back.
void Leases::add_returns(PlainCalls& store, std::vector<std::unique_ptr<Exchange>>& returns) {
  const Duration now = boot_time();
  if (!have_ended(now)) return;
  for (LeaseReturn& each : take_ended(now)) {
    bool is_suspect = false;
    const std::string key = key_of_return(store, each);
    store.for_each_observer([&](Observer& observer) { is_suspect |= observer.suspects(key); });
    if (is_suspect) {
      give_back(std::move(each));
    } else {
      returns.push_back(std::make_unique<Returning>(store, *this, std::move(each)));
    }
  }
}

// Those that were not executed, as their slots have moved, are run by themselves then.
void give_back_all(PlainCalls& store, Leases& leases) {
  const Wait wait{store.servers().deadline()};
  const Returns all = all_returns(store, leases);
  Batch batch(store.servers());
  for (const auto& each : all)
    batch.add(each->script(), each->is_sent_with_text() ? Batch::By::text : Batch::By::name);
  batch.run(wait);
  for (std::size_t i = 0; i < all.size(); ++i) all[i]->arrived(batch.received(i));
  for (const auto& moved : all_returns(store, leases)) {
    std::optional<protocol::Reply> reply;
    try {
      reply = store.servers().run(moved->script(), wait);
    } catch (const StoreError&) {
    }
    moved->arrived(reply);
  }
  for (const LeaseReturn& each : leases.take_ended(boot_time()))
    leases.count(each.lease->subject().policy, Units::lapsed, each.units);
}

}  // namespace overlimit::redis
