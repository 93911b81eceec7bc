#include "redis/leases/lease_request.hpp"

#include <algorithm>

#include "overlimit/pair.hpp"

namespace overlimit::redis {
namespace {

/// What a limit must grant at once for any of it to be leased.
constexpr Cost kFewest = 5;

/// Until when units count the same that led to these states, whenever they were charged.
Instant all_same_until(const Charge& charge, const Rows& rows) {
  Instant until = kMaxTime;
  for (std::size_t i = 0; i < charge.policy->size(); ++i) {
    until = min(until, with_algorithm(charge.policy->limits()[i].limit, [&](const auto& limit) {
                  using State = typename std::decay_t<decltype(limit)>::State;
                  return same_until(limit, state_from<State>(rows.receipt[i].after));
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

/// Has a bucket's receipt of the call that asked for a lease be one of that call alone: what is not leased is
/// not held and drains meanwhile, so it is not refunded to the lease.
void leave_out(Cost leased, const Charge& charge, const Rows& rows) {
  for (std::size_t i = 0; i < charge.policy->size(); ++i) {
    with_algorithm(charge.policy->limits()[i].limit, [&](const auto& limit) {
      if constexpr (requires { holds_leases(limit); }) {
        if (!holds_leases(limit)) return;
        using State = typename std::decay_t<decltype(limit)>::State;
        const auto state = state_from<State>(rows.receipt[i].after);
        rows.receipt[i].after = header_from(without_charge(limit, state, leased));
      }
    });
  }
}

}  // namespace

bool has_holds(const CompiledPolicy& policy) {
  return std::ranges::any_of(policy.limits(), [](const CompiledLimit& each) {
    return with_algorithm(each.limit, [](const auto& limit) {
      if constexpr (requires { holds_leases(limit); }) return holds_leases(limit);
      return false;
    });
  });
}

bool can_be_leased(const Call& call) {
  const auto is_plain = [](const Charge& each) { return each.role == Role::enforce && each.cost > 0; };
  return goes_by_server(call) && std::ranges::all_of(call.charges, is_plain);
}

void delay_retry(Duration until, const Rows& rows) {
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
  Duration longest = kLongestHold;
  for (const CompiledLimit& each : policy.limits()) {
    const auto most = [](const auto& limit) { return most_leased(limit); };
    if (with_algorithm(each.limit, most) < kFewest) return {};
    longest = min(longest, with_algorithm(each.limit,
                                          [](const auto& limit) { return overlimit::longest_lease(limit); }));
  }
  return longest;
}

void NotingCharges::decided(const Call& call, const ScriptReply& /*reply*/, const Answer& answer,
                            const Rows& rows) {
  note_reading(call, answer.now, rows);
  show_leased(call, rows);
}

// When a reply reported a key, and what it has charged to that without its lease, such as another
// store that does not lease.
void NotingCharges::note_reading(const Call& call, Instant time, const Rows& rows) const {
  std::size_t row = 0;
  for (const Charge& charge : call.charges) {
    const bool is_charged = rows.receipt[row].created_at != Instant{};
    row += charge.policy->size();
    const std::shared_ptr<Lease> lease = leases_.find(charge);
    if (lease == nullptr) continue;
    lease->note_time(time);
    if (is_charged) lease->note_charged(charge.cost);
  }
}

void NotingCharges::show_leased(const Call& call, const Rows& rows) const {
  if (!shows_leased_ || !goes_by_server(call)) return;
  std::size_t row = 0;
  for (const Charge& charge : call.charges) {
    const std::size_t first = row;
    row += charge.policy->size();
    const std::shared_ptr<Lease> lease = charge.cost == 0 ? leases_.find(charge) : nullptr;
    if (lease == nullptr || !lease->is_of(*charge.policy) || lease->has_ended(boot_time())) continue;
    for (std::size_t i = first; i < row; ++i) rows.remaining[i] += lease->left();
  }
}

LeaseRequest::LeaseRequest(Leases& leases, const Call& call, Duration longest, Duration timeout,
                           Extras& extras)
    : NotingCharges(leases, true),
      policy_(call.charges.front().policy->name()),
      longest_(longest),
      asked_at_(boot_time()) {
  leases.file().keep_open();
  request_.endings = leases.endings();
  if (call.charges.size() > 1) return;
  const Charge& charge = call.charges.front();
  term_ = min(longest_, longest_lease(*charge.policy));
  if (term_ == Duration{}) return;
  request_ = leases.ask(charge, term_, asked_at_, timeout, has_holds(*charge.policy));
  extras.lease = request_.extra;
  extras.term = term_;
}

void LeaseRequest::lost() {
  if (request_.extra == 0) return;
  for (const Units each : {Units::granted, Units::lapsed})
    leases().releases().count(policy_, each, request_.extra);
}

void LeaseRequest::decided(const Call& call, const ScriptReply& reply, const Answer& answer,
                           const Rows& rows) {
  if (!reply.granted()) NotingCharges::decided(call, reply, answer, rows);
  answered(call, answer.now, reply.granted(), rows);
}

// A lease that would have ended by now is released with the next command. A command for several identifiers
// asks for none, but tells how often each comes.
void LeaseRequest::answered(const Call& call, Instant shown, std::optional<Cost> granted, const Rows& rows) {
  std::optional<LeaseTerms> terms;
  if (granted) {
    const Charge& charge = call.charges.front();
    const ServerReading reading{shown, asked_at_, boot_time()};
    const Instant until = min(all_same_until(charge, rows), shown + term_);
    terms = {reading, reading.before(until), *granted, rows_of_lease(charge, shown, rows)};
    for (std::size_t i = 0; i < charge.policy->size(); ++i) rows.remaining[i] += *granted;
    leave_out(*granted, charge, rows);
  }
  std::size_t row = 0;
  for (const Charge& charge : call.charges) {
    const std::span verdicts(rows.status + row, charge.policy->size());
    row += verdicts.size();
    const bool is_refused = std::ranges::any_of(verdicts, [](Status each) { return each != Status::ok; });
    if (is_refused && request_.extra > 0) delay_retry(asked_at_ + term_, rows_of(rows, 0, verdicts.size()));
    leases().answered(charge, terms, asked_at_, request_, is_refused,
                      asked_at_ + (term_ > Duration{} ? term_ : longest_));
  }
}

EndingLeases::EndingLeases(Leases& leases, const Change& change)
    : leases_(leases),
      policy_(change.policy),
      identifiers_(change.identifiers.begin(), change.identifiers.end()),
      rest_(change.kind == Change::Kind::lock ? Rest::released : Rest::forgotten) {
  leases_.file().open();
  leases_.begin_change();
  end();
}

EndingLeases::~EndingLeases() {
  end();
  leases_.end_change();
}

void EndingLeases::end() const {
  if (identifiers_.empty()) leases_.end_all(policy_, rest_);
  for (const std::string& each : identifiers_) leases_.end(policy_, each, rest_);
}

}  // namespace overlimit::redis
