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
  end_leases_of(call);
  return std::make_unique<NotingCharges>(leases(), true);
}

// What is leased first; then what is certainly refused; then what this process does not ask for yet.
bool Leasing::decide_here(const Call& call, Duration /*next_ask_at*/, const Rows& rows, Instant& time,
                          Basis& basis) {
  leases().file().open();
  if (may_split(call) && decide_split_here(call, rows, time, basis)) return true;
  const Leases::Found leased = find(call);
  if (spend(leased, call, rows, time, basis)) return true;
  const Duration next_ask_at = leased.next_ask_at;
  if (below().decide_here(call, next_ask_at, rows, time, basis)) {
    delay_retry(next_ask_at, rows_of(rows, 0, pairs_of(call.charges)));
    return true;
  }
  return next_ask_at > Duration{} && refuse_until_next_ask(leased, rows, time, basis);
}

// Several identifiers: all are leased here, or those that are not are certainly refused.
bool Leasing::decide_split_here(const Call& call, const Rows& rows, Instant& time, Basis& basis) {
  LeasedParts leased(*this, call);
  if (leased.are_all()) {
    if (!leased.take()) return false;
    time = leased.time();
    basis.source = Source::lease;
  } else if (!leased.are_some() ||
             !below().decide_here(leased.rest(), {}, leased.rows_of_rest(), time, basis)) {
    return false;
  }
  leased.note_time(time);
  leased.show(time, rows);
  return true;
}

bool Leasing::is_decided_apart(const Call& call) { return may_split(call) || below().is_decided_apart(call); }

Instant Leasing::decide(const Call& call, const Rows& rows, Basis& basis, const Wait& wait) {
  if (may_split(call)) {
    if (const std::optional<Instant> decided = decide_split(call, rows, basis, wait)) return *decided;
  }
  return below().decide(call, rows, basis, wait);
}

// Commands go first, and what is leased is taken last. If that is gone by then, what was charged is refunded,
// and the whole call is asked for.
std::optional<Instant> Leasing::decide_split(const Call& call, const Rows& rows, Basis& basis,
                                             const Wait& wait) {
  LeasedParts leased(*this, call);
  if (!leased.are_some()) return std::nullopt;
  const Instant time = below().decide(leased.rest(), leased.rows_of_rest(), basis, wait);
  const std::span<const Status> verdicts(leased.rows_of_rest().status, leased.rows_of_rest().count);
  const bool admits = std::ranges::all_of(verdicts, [](Status each) { return each == Status::ok; });
  if (admits && !leased.take()) {
    send_refund(leased.rest(), leased.rows_of_rest().receipts(), basis, wait);
    return std::nullopt;
  }
  leased.note_time(time);
  leased.show(time, rows);
  return time;
}

bool Leasing::may_split(const Call& call) {
  return call.mode == Mode::consume && call.charges.size() > 1 && can_be_leased(call);
}

std::shared_ptr<Lease> Leasing::usable(const Charge& charge) {
  std::shared_ptr<Lease> lease = leases().find(charge);
  const Duration now = boot_time();
  return lease != nullptr && lease->covers(charge) && is_recent(*lease, now) && !lease->has_ended(now)
             ? lease
             : nullptr;
}

bool Leasing::is_hot(const Call& call, const Charge& charge) {
  if (!may_split(call)) return false;
  const Duration term = min(longest_, longest_lease(*charge.policy));
  return term > Duration{} && leases().is_wanted(charge, term, boot_time(), has_holds(*charge.policy));
}

Leases::Found Leasing::find(const Call& call) {
  if (call.charges.size() != 1 || !can_be_leased(call)) return {};
  Leases::Found found = leases().find(call.charges.front(), longest_);
  if (found.lease != nullptr && !found.lease->is_of(*call.charges.front().policy)) found.lease = nullptr;
  if (call.mode != Mode::consume) found.next_ask_at = {};
  return found;
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
  if (lease->has_ended(now) || !is_recent(*lease, now)) {
    if (call.mode == Mode::consume) refund_to(lease, cost);
    return false;
  }
  time = lease->time(now);
  lease->show(time, left, rows);
  basis.source = Source::lease;
  return true;
}

bool Leasing::refuse_until_next_ask(const Leases::Found& found, const Rows& rows, Instant& time,
                                    Basis& basis) {
  const Duration now = boot_time();
  if (found.lease == nullptr || now >= found.next_ask_at) return false;
  time = found.lease->time(now);
  found.lease->show_refused(time, found.next_ask_at - now, rows);
  basis.source = Source::refusal;
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
    if (refund_here(one, own)) continue;
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
  if (!refund_here(call, receipts)) below().send_refund(call, receipts, basis, wait);
}

bool Leasing::refund_here(const Call& call, std::span<const Receipt> receipts) {
  if (call.charges.size() != 1 || !can_be_leased(call)) return false;
  const Charge& charge = call.charges.front();
  const std::shared_ptr<Lease> lease = leases().find(charge);
  if (lease == nullptr || !lease->is_charged_by(receipts) || lease->has_ended(boot_time())) return false;
  return lease->refund(charge.cost);
}

// To be spent by somebody else, or else released.
void Leasing::refund_to(const std::shared_ptr<Lease>& lease, Cost units) {
  if (!lease->refund(units)) leases().releases().add({lease, units});
}

// What cannot be leased ends the leases of its keys, which are released before it: what is reported to it,
// and what later decisions tell, is right then. A peek only ends those that are too small for it.
void Leasing::end_leases_of(const Call& call) {
  for (const Charge& charge : call.charges) {
    if (charge.cost == 0) continue;
    if (call.mode == Mode::peek) {
      leases().end_too_small(charge);
    } else {
      leases().end(charge.policy->name(), charge.identifier, Rest::released);
    }
  }
}

void Leasing::close() {
  leases().end_all();
  release_all(store_, leases());
  below().close();
}

}  // namespace overlimit::redis
