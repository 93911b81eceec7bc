#include "redis/leases/leasing.hpp"

#include <algorithm>

#include "redis/leases/lease_release.hpp"
#include "redis/leases/lease_request.hpp"
#include "redis/leases/leased_parts.hpp"

namespace overlimit::redis {
namespace {

void name_file(Leases& leases, const LeaseIn& file, const Location& location, const KeyNaming& keys) {
  if (leases.file().name(file, location, name_of_keyspace(location, keys)) || !file.warn) return;
  file.warn("lease_in='shm://" + file.name_or_path +
            "' is ignored: another store of this process has named another file for the same keys");
}

/// Whether a call may be parted into what is leased and what is asked for.
bool may_split(const Call& call) {
  return call.mode == Mode::consume && call.charges.size() > 1 && can_be_leased(call);
}

/// What may decide a call of one charge: its lease, and until when (boot time) this process does not ask for
/// it.
Leases::Found find(Leases& leases, const Call& call, Duration longest) {
  if (call.charges.size() != 1 || !can_be_leased(call)) return {};
  Leases::Found found = leases.find(call.charges.front(), longest);
  if (found.lease != nullptr && !found.lease->is_of(*call.charges.front().policy)) found.lease = nullptr;
  if (call.mode != Mode::consume) found.next_ask_at = {};
  return found;
}

/// Whether the call is refused until the next ask, as this process was granted less than it wanted.
bool refuse_until_next_ask(const Leases::Found& found, const Rows& rows, Instant& time, Basis& basis) {
  const Duration now = boot_time();
  if (found.lease == nullptr || now >= found.next_ask_at) return false;
  time = found.lease->time(now);
  found.lease->show_refused(time, found.next_ask_at - now, rows);
  basis.source = Source::refusal;
  return true;
}

/// Refunds what a leased decision has spent to its lease, if that lives.
bool refund_here(Leases& leases, const Call& call, std::span<const Receipt> receipts) {
  if (call.charges.size() != 1 || !can_be_leased(call)) return false;
  const Charge& charge = call.charges.front();
  const std::shared_ptr<Lease> lease = leases.find(charge);
  if (lease == nullptr || !lease->is_charged_by(receipts) || lease->has_ended(boot_time())) return false;
  return lease->refund(charge.cost);
}

/// What cannot be leased ends the leases of its keys, which are released before it: what is reported to it,
/// and what later decisions tell, is right then. A peek only ends those that are too small for it.
void end_leases_of(Leases& leases, const Call& call) {
  for (const Charge& charge : call.charges) {
    if (charge.cost == 0) continue;
    if (call.mode == Mode::peek) {
      leases.end_too_small(charge);
    } else {
      leases.end(charge.policy->name(), charge.identifier, Rest::released);
    }
  }
}

}  // namespace

Leasing::Leasing(StoreClient& store, Calls& below, const Options& options)
    : Layer(below), store_(store), longest_(options.longest), leases_([&store, file = options.lease_in] {
        auto& leases = store.keyspace().observed_by<Leases>(Observer::Keeps::leases);
        if (file) name_file(leases, *file, store.servers().location(), store.naming());
        return std::make_unique<Leases*>(&leases);
      }) {
  (void)leases();
}

std::unique_ptr<Observation> Leasing::observe_attempt(const Exchange& exchange, Extras& extras) {
  if (exchange.deciding() == nullptr) return nullptr;
  const Call& call = exchange.deciding()->call();
  if (can_be_leased(call) && call.mode != Mode::peek) {
    return std::make_unique<LeaseRequest>(leases(), call, longest_, store_.servers().timeout(), extras);
  }
  end_leases_of(leases(), call);
  return std::make_unique<NotingCharges>(leases(), true);
}

// What is leased first; then what is certainly refused; then what this process does not ask for yet.
bool Leasing::decide_here(const Call& call, Duration /*next_ask_at*/, const Rows& rows, Instant& time,
                          Basis& basis) {
  leases().file().open();
  if (may_split(call) && LeasedParts(leases(), call, longest_).decide_here(below(), rows, time, basis))
    return true;
  const Leases::Found leased = find(leases(), call, longest_);
  if (spend(leased, call, rows, time, basis)) return true;
  const Duration next_ask_at = leased.next_ask_at;
  if (below().decide_here(call, next_ask_at, rows, time, basis)) {
    delay_retry(next_ask_at, rows_of(rows, 0, pairs_of(call.charges)));
    return true;
  }
  return next_ask_at > Duration{} && refuse_until_next_ask(leased, rows, time, basis);
}

bool Leasing::is_decided_apart(const Call& call) { return may_split(call) || below().is_decided_apart(call); }

// Commands go first, and what is leased is taken last. If that is gone by then, what was charged is refunded,
// and the whole call is asked for.
Instant Leasing::decide(const Call& call, const Rows& rows, Basis& basis, const Wait& wait) {
  if (may_split(call)) {
    LeasedParts parts(leases(), call, longest_);
    if (parts.are_some()) {
      if (const std::optional<Instant> time = parts.decide(below(), rows, basis, wait)) return *time;
      send_refund(parts.rest(), parts.receipts_of_rest(), basis, wait);
    }
  }
  return below().decide(call, rows, basis, wait);
}

bool Leasing::is_hot(const Call& call, const Charge& charge) {
  if (!may_split(call)) return false;
  const Duration term = min(longest_, longest_lease(*charge.policy));
  return term > Duration{} && leases().is_wanted(charge, term, boot_time(), has_holds(*charge.policy));
}

// Units are taken first and the clock is read after that, so that who is stopped in between spends nothing.
bool Leasing::spend(const Leases::Found& found, const Call& call, const Rows& rows, Instant& time,
                    Basis& basis) {
  const std::shared_ptr<Lease>& lease = found.lease;
  if (lease == nullptr) return false;
  const Cost cost = call.charges.front().cost;
  Cost left = lease->left() - cost;
  if (call.mode == Mode::peek ? left < 0 : !lease->take(cost, left)) return false;
  const Duration now = boot_time();
  if (lease->has_ended(now) || !lease->is_recent(now, longest_)) {
    if (call.mode == Mode::consume) leases().releases().refund(lease, cost);
    return false;
  }
  time = lease->time(now);
  lease->show(time, left, rows);
  basis.source = Source::lease;
  return true;
}

// To leases that live, as far as they have charged it; the rest is refunded as ever.
void Leasing::refund(const Call& call, std::span<const Receipt> receipts, Present* present,
                     const Wait& wait) {
  if (present != nullptr) return below().refund(call, receipts, present, wait);
  std::vector<Charge> others;
  std::vector<Receipt> of_others;
  std::size_t row = 0;
  for (const Charge& charge : call.charges) {
    Call one = call;
    one.charges = {&charge, 1};
    const std::span own = receipts.subspan(row, charge.policy->size());
    row += own.size();
    if (refund_here(leases(), one, own)) continue;
    others.push_back(charge);
    of_others.insert(of_others.end(), own.begin(), own.end());
  }
  Call rest = call;
  rest.charges = others;
  if (!others.empty()) below().refund(rest, of_others, nullptr, wait);
}

// What was charged together with a lease is refunded to that.
void Leasing::send_refund(const Call& call, std::span<const Receipt> receipts, Basis& basis,
                          const Wait& wait) {
  if (!refund_here(leases(), call, receipts)) below().send_refund(call, receipts, basis, wait);
}

void Leasing::close() {
  leases().end_all();
  release_all(store_, leases());
  below().close();
}

}  // namespace overlimit::redis
