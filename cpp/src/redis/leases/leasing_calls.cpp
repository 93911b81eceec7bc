#include "redis/leases/leasing_calls.hpp"

#include <algorithm>

#include "overlimit/algorithms/leasing.hpp"
#include "overlimit/pair.hpp"

namespace overlimit::redis {
namespace {

/// What a limit must grant at once for any of it to be leased.
constexpr Cost kFewest = 5;

/// Whether a policy's records hold what is leased, so that little of it comes back.
bool has_holds(const CompiledPolicy& policy) {
  return std::ranges::any_of(policy.limits(), [](const CompiledLimit& each) {
    const auto* const bucket = std::get_if<TokenBucket>(&each.limit.algorithm());
    return bucket != nullptr && bucket->every == kMicrosecond;
  });
}

bool can_be_leased(const Call& call) {
  const auto is_plain = [](const Charge& each) { return each.role == Role::enforce && each.cost > 0; };
  return !call.now && call.clock == nullptr && std::ranges::all_of(call.charges, is_plain);
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

std::vector<LeasedRow> rows_of_lease(const Charge& charge, Instant shown, const Rows& rows) {
  std::vector<LeasedRow> own;
  for (std::size_t i = 0; i < charge.policy->size(); ++i) {
    own.push_back({rows.remaining[i], shown + rows.reset_after[i], rows.receipt[i]});
  }
  return own;
}

void name_file(Leases& leases, const RedisStore::LeaseIn& file, const Location& location,
               const KeyNaming& keys) {
  if (leases.file().name(file, location, text_of(place_name(location, keys))) || !file.warn) return;
  file.warn("lease_in='shm://" + file.name_or_path +
            "' is ignored: another store of this process has named another file for the same keys");
}

/// Has a bucket's receipt of the call that asked for a lease be one of that call alone: what is not leased is
/// not held and drains meanwhile, so it does not go back into the lease.
void leave_out(Cost leased, const Charge& charge, const Rows& rows) {
  for (std::size_t i = 0; i < charge.policy->size(); ++i) {
    with_algorithm(charge.policy->limits()[i].limit, [&](const auto& limit) {
      if constexpr (std::is_same_v<std::decay_t<decltype(limit)>, TokenBucket>) {
        if (limit.every != kMicrosecond) return;
        auto state = state_from<TokenBucket::State>(rows.receipt[i].after);
        state.used -= product(leased, limit.units);
        rows.receipt[i].after = header_from(state);
      }
    });
  }
}

}  // namespace

void hold_back(Duration until, const Rows& rows) {
  if (until == Duration{}) return;
  const std::span verdicts(rows.status, rows.count);
  const auto refusing = std::ranges::find(verdicts, Status::over);
  if (refusing == verdicts.end()) return;
  Duration& wait = rows.retry_after[refusing - verdicts.begin()];
  wait = max(wait, until - boot_time());
}

// Less than five units are never leased.
Duration longest_lease(const CompiledPolicy& policy) {
  if (policy.penalty() != nullptr) return {};
  Duration longest = leasing::kUnbounded;
  for (const CompiledLimit& each : policy.limits()) {
    const auto most = [](const auto& limit) { return leasing::most(limit); };
    if (with_algorithm(each.limit, most) < kFewest) return {};
    longest =
        min(longest, with_algorithm(each.limit, [](const auto& limit) { return leasing::longest(limit); }));
  }
  return longest;
}

LeasingCalls::LeasingCalls(const Location& location, const Options& options)
    : longest_(options.longest), timeout_(options.timeout), leases_([location, options, this] {
        auto leases = Leases::of(location, options.keys);
        if (is_on()) leases->want();
        if (is_on() && options.lease_in) name_file(*leases, *options.lease_in, location, options.keys);
        return std::make_unique<std::shared_ptr<Leases>>(std::move(leases));
      }) {
  (void)*leases_;
}

bool LeasingCalls::may_cut(const Call& call) const {
  return is_on() && call.mode == Mode::consume && call.charges.size() > 1 && can_be_leased(call);
}

std::shared_ptr<Lease> LeasingCalls::usable(const Charge& charge) {
  std::shared_ptr<Lease> lease = (**leases_).find(charge);
  const Duration now = boot_time();
  return lease != nullptr && lease->covers(charge) && is_recent(*lease, now) && !lease->has_ended(now)
             ? lease
             : nullptr;
}

bool LeasingCalls::is_hot(const Charge& charge) {
  const Duration life = min(longest_, longest_lease(*charge.policy));
  return life > Duration{} && (**leases_).is_wanted(charge, life, boot_time(), has_holds(*charge.policy));
}

Leases::Found LeasingCalls::find(const Call& call) {
  if (!is_on() || call.charges.size() != 1 || !can_be_leased(call)) return {};
  Leases::Found found = (**leases_).find(call.charges.front(), longest_);
  if (found.lease != nullptr && !found.lease->is_of(*call.charges.front().policy)) found.lease = nullptr;
  if (call.mode != Mode::consume) found.next_turn = {};
  return found;
}

// Units are taken first and the clock is read after that, so that who is stopped in between spends nothing.
bool LeasingCalls::spend(const Leases::Found& found, const Call& call, const Rows& rows, Instant& time,
                         Basis& basis) {
  const std::shared_ptr<Lease>& lease = found.lease;
  if (lease == nullptr) return false;
  const Cost cost = call.charges.front().cost;
  Cost left = lease->left() - cost;
  if (call.mode == Mode::peek ? left < 0 : !lease->take(cost, left)) return false;
  const Duration now = boot_time();
  if (lease->has_ended(now) || !is_recent(*lease, now)) {
    if (call.mode == Mode::consume) put_back(lease, cost);
    return false;
  }
  time = lease->time(now);
  lease->show(time, left, rows);
  basis.source = Source::lease;
  return true;
}

bool LeasingCalls::refuse_until_turn(const Leases::Found& found, const Rows& rows, Instant& time,
                                     Basis& basis) {
  const Duration now = boot_time();
  if (found.lease == nullptr || now >= found.next_turn) return false;
  time = found.lease->time(now);
  found.lease->show_refused(time, found.next_turn - now, rows);
  basis.source = Source::refusal;
  return true;
}

void LeasingCalls::show_held(const Call& call, const Rows& rows) {
  if (!is_on() || call.now || call.clock != nullptr) return;
  std::size_t row = 0;
  for (const Charge& charge : call.charges) {
    const std::size_t first = row;
    row += charge.policy->size();
    const std::shared_ptr<Lease> lease = charge.cost == 0 ? (**leases_).find(charge) : nullptr;
    if (lease == nullptr || !lease->is_of(*charge.policy) || lease->has_ended(boot_time())) continue;
    for (std::size_t i = first; i < row; ++i) rows.remaining[i] += lease->left();
  }
}

bool LeasingCalls::put_back(const Call& call, std::span<const Receipt> receipts) {
  if (wanted() == nullptr || call.charges.size() != 1 || !can_be_leased(call)) return false;
  const Charge& charge = call.charges.front();
  const std::shared_ptr<Lease> lease = (**leases_).find(charge);
  if (lease == nullptr || !lease->is_charged_by(receipts) || lease->has_ended(boot_time())) return false;
  return lease->put_back(charge.cost);
}

// To be spent by somebody else, or else given back.
void LeasingCalls::put_back(const std::shared_ptr<Lease>& lease, Cost units) {
  if (!lease->put_back(units)) (**leases_).give_back({lease, units});
}

// What cannot be leased ends the leases of its keys, which go back before it: what it is told, and what later
// decisions tell, is right then. A peek only ends those that are too small for it.
void LeasingCalls::make_way(const Call& call) {
  Leases* const leases = wanted();
  if (leases == nullptr || !is_on()) return;
  for (const Charge& charge : call.charges) {
    if (charge.cost == 0) continue;
    if (call.mode == Mode::peek) {
      leases->make_way(charge);
    } else {
      leases->end(charge.policy->name(), charge.identifier, true);
    }
  }
}

LeaseRequest::LeaseRequest(LeasingCalls& leasing, const Call& call) {
  known_ = leasing.wanted();
  if (!leasing.is_on() || !can_be_leased(call) || call.mode == Mode::peek) {
    leasing.make_way(call);
    return;
  }
  leases_ = &**leasing.leases_;
  leases_->file().keep_open();
  longest_ = leasing.longest_;
  asked_at_ = boot_time();
  asking_.endings = leases_->endings();
  if (call.charges.size() > 1) return;
  life_ = min(longest_, longest_lease(*call.charges.front().policy));
  if (life_ == Duration{}) return;
  const Charge& charge = call.charges.front();
  asking_ = leases_->ask(charge, life_, asked_at_, leasing.timeout_, has_holds(*charge.policy));
}

// A lease that would have ended by now is given back with the next command. A command for several identifiers
// asks for none, but tells how often each comes.
void LeaseRequest::answered(const Call& call, Instant shown, std::optional<Cost> granted, const Rows& rows) {
  if (known_ != nullptr && !granted) note_told(call, shown, rows);
  if (leases_ == nullptr) return;
  std::optional<LeaseTerms> terms;
  if (granted) {
    const Charge& charge = call.charges.front();
    const ServerReading told{shown, asked_at_, boot_time()};
    const Instant until = min(same_until(charge, rows), shown + life_);
    terms = {told, told.before(until), *granted, rows_of_lease(charge, shown, rows)};
    for (std::size_t i = 0; i < charge.policy->size(); ++i) rows.remaining[i] += *granted;
    leave_out(*granted, charge, rows);
  }
  std::size_t row = 0;
  for (const Charge& charge : call.charges) {
    const std::span verdicts(rows.status + row, charge.policy->size());
    row += verdicts.size();
    const bool is_refused = std::ranges::any_of(verdicts, [](Status each) { return each != Status::ok; });
    if (is_refused && asking_.extra > 0) hold_back(asked_at_ + life_, rows_of(rows, 0, verdicts.size()));
    leases_->answered(charge, terms, asked_at_, asking_, is_refused,
                      asked_at_ + (life_ > Duration{} ? life_ : longest_));
  }
}

// When this process was told of a key, and what it has charged to that without its lease, such as another
// store that does not lease.
void LeaseRequest::note_told(const Call& call, Instant time, const Rows& rows) const {
  std::size_t row = 0;
  for (const Charge& charge : call.charges) {
    const bool is_charged = rows.receipt[row].created_at != Instant{};
    row += charge.policy->size();
    const std::shared_ptr<Lease> lease = known_->find(charge);
    if (lease == nullptr) continue;
    lease->note_time(time);
    if (is_charged) lease->note_charged(charge.cost);
  }
}

void LeaseRequest::lost(const Call& call) const {
  if (asking_.extra == 0) return;
  for (const RedisStore::Units each : {RedisStore::Units::granted, RedisStore::Units::lapsed})
    leases_->count(call.charges.front().policy->name(), each, asking_.extra);
}

EndingLeases::EndingLeases(LeasingCalls& leasing, std::string_view policy,
                           std::vector<std::string_view> identifiers, Then then)
    : leases_(leasing.wanted()), policy_(policy), identifiers_(std::move(identifiers)), then_(then) {
  if (leases_ == nullptr) return;
  leases_->file().open();
  leases_->begin_change();
  end();
}

EndingLeases::~EndingLeases() {
  if (leases_ == nullptr) return;
  end();
  leases_->end_change();
}

void EndingLeases::end() const {
  const bool gives_back = then_ == Then::goes_back;
  if (identifiers_.empty()) leases_->end_all(policy_, gives_back);
  for (const std::string_view each : identifiers_) leases_->end(policy_, each, gives_back);
}

}  // namespace overlimit::redis
