#include "redis/calls.hpp"

#include <algorithm>
#include <deque>

#include "redis/leases/key_name.hpp"
#include "redis/leases/leased_parts.hpp"
#include "redis/plain/batch.hpp"

namespace overlimit::redis {
namespace {

using protocol::Reply;

/// How often those who wait for what another caller is told look for it.
constexpr std::chrono::milliseconds kPauseForNews{1};
/// How many calls are under way at the same time.
constexpr std::size_t kInFlight = 64;

bool have_common_key(std::span<const Call> calls, const Call& other) {
  return std::ranges::any_of(calls, [&](const Call& call) {
    return std::ranges::any_of(call.charges, [&](const Charge& one) {
      return std::ranges::any_of(other.charges,
                                 [&](const Charge& two) { return name_of(one) == name_of(two); });
    });
  });
}

}  // namespace

Calls::Calls(Location location, const RedisStore::Options& options)
    : keys_(options.keys),
      servers_(std::move(location), options.timeout),
      known_(servers_.location(), {options.keys, options.max_stale, options.timeout}),
      leasing_(servers_.location(), {options.keys, options.lease, options.timeout, options.lease_in}),
      remembering_(servers_.location(), options.keys, options.remember) {}

// What is leased first; then what is certainly refused; then what this process does not ask for yet.
bool Calls::decide_here(const Call& call, const Rows& rows, Instant& time, Basis& basis) {
  if (!anybody_wants_to_know.load(std::memory_order_relaxed)) return false;
  leasing_.open_file();
  if (leasing_.may_cut(call) && decide_cut_here(call, rows, time, basis)) return true;
  const Leases::Found leased = leasing_.find(call);
  if (leasing_.spend(leased, call, rows, time, basis)) return true;
  const Duration turn = leased.next_turn;
  if (known_.refuse(call, turn, rows, time, basis)) {
    if (turn > Duration{}) hold_back(turn, rows_of(rows, 0, pairs_of(call.charges)));
    return true;
  }
  return turn > Duration{} && (known_.refuse_until(call, turn, rows, time, basis) ||
                               leasing_.refuse_until_turn(leased, rows, time, basis));
}

// Several identifiers: all are leased here, or those that are not are certainly refused.
bool Calls::decide_cut_here(const Call& call, const Rows& rows, Instant& time, Basis& basis) {
  LeasedParts leased(leasing_, call);
  if (leased.are_all()) {
    if (!leased.take()) return false;
    time = leased.time();
    basis.source = Source::lease;
  } else if (!leased.are_some() || !known_.refuse(leased.rest(), {}, leased.rows_of_rest(), time, basis)) {
    return false;
  }
  leased.note_time(time);
  leased.show(time, rows);
  return true;
}

// What goes to a key that its server may have forgotten waits until a call has brought that back.
GiveBacks Calls::give_backs(GiveBackTo keys) {
  Leases* const leases = leasing_.wanted();
  std::vector<LeaseReturn> ended;
  if (leases != nullptr) {
    if (const Duration now = boot_time(); leases->have_ended(now)) ended = leases->take_ended(now);
  }
  if (keys == GiveBackTo::keys_not_lost && remembering_.is_on()) {
    const auto waiting = std::partition(ended.begin(), ended.end(),
                                        [&](const LeaseReturn& each) { return !may_be_lost(each); });
    for (auto each = waiting; each != ended.end(); ++each) leases->give_back(std::move(*each));
    ended.erase(waiting, ended.end());
  }
  return {leases, std::move(ended), keys_, scripts_, is_refund_known_, remembering_, servers_};
}

// Until its reply counts. What a reply that does not count says was charged goes back before.
void Calls::run(Exchange& exchange, const Wait& wait) {
  Exchange* const one = &exchange;
  for (int doubted = 0;; ++doubted) {
    if (remembering_.is_on()) restore({&one, 1}, wait);
    exchange.prepare(doubted < kMostDoubts);
    if (exchange.hears(ask(exchange, wait))) return;
    if (const std::optional<ScriptCall> refund = exchange.undoing())
      undo({&*refund, 1}, exchange.basis(), wait);
  }
}

// What goes back in front of it is not sent again; the script is, if it was not executed.
Reply Calls::ask(Exchange& exchange, const Wait& wait) {
  ++exchange.basis().commands;
  try {
    if (!exchange.follows_returns() || !anybody_wants_to_know.load(std::memory_order_relaxed))
      return servers_.run(exchange.script(), wait);
    GiveBacks before = give_backs();
    if (before.empty()) return servers_.run(exchange.script(), wait);
    exchange.follows(before);
    exchange.basis().commands += std::uint32_t(before.size());
    Batch batch(servers_);
    before.add_to(batch);
    batch.add(exchange.script(), Batch::By::name);
    batch.run(wait);
    before.read(batch);
    if (!batch.received(before.size())) batch.failure().raise_if_any();
    return batch.reply(before.size(), wait);
  } catch (const StoreError& error) {
    if (error.maybe_charged()) exchange.lost();
    throw;
  }
}

// The same for several, which are under way at the same time. Returns the first failure, after which those
// that are left are not sent again.
FirstError Calls::run(std::span<Exchange* const> exchanges, const Wait& wait) {
  FirstError failure;
  std::vector<Exchange*> left(exchanges.begin(), exchanges.end());
  for (int doubted = 0; !left.empty() && !failure; ++doubted)
    left = ask(left, doubted < kMostDoubts, failure, wait);
  return failure;
}

// What was answered counts, whatever happens to the others. Returns those whose replies do not; what these
// say was charged has gone back then.
std::vector<Exchange*> Calls::ask(std::span<Exchange* const> exchanges, bool may_doubt, FirstError& failure,
                                  const Wait& wait) {
  if (remembering_.is_on()) restore(exchanges, wait);
  for (Exchange* const each : exchanges) {
    each->prepare(may_doubt);
    ++each->basis().commands;
  }
  Batch batch(servers_);
  std::optional<GiveBacks> before;
  if (exchanges.front()->follows_returns()) {
    before.emplace(give_backs());
    for (Exchange* const each : exchanges) each->follows(*before);
    exchanges.front()->basis().commands += std::uint32_t(before->size());
    before->add_to(batch);
  }
  const std::size_t first = batch.size();
  for (Exchange* const each : exchanges) batch.add(each->script(), Batch::By::in_order);
  batch.run(wait);
  if (before) before->read(batch);
  failure = batch.failure();
  std::vector<Exchange*> again;
  std::vector<ScriptCall> refunds;
  for (std::size_t k = 0; k < exchanges.size(); ++k) {
    Exchange& each = *exchanges[k];
    each.was_redirected = batch.was_redirected(first + k);
    try {
      if (!batch.received(first + k)) {
        if (batch.failure().maybe_charged()) each.lost();
        continue;
      }
      if (each.hears(batch.reply(first + k, wait))) continue;
      again.push_back(&each);
      if (std::optional<ScriptCall> refund = each.undoing()) refunds.push_back(*std::move(refund));
    } catch (const StoreError& error) {
      if (error.maybe_charged()) each.lost();
      failure.note();
    } catch (...) {
      failure.note();
    }
  }
  try {
    if (!refunds.empty()) undo(refunds, again.front()->basis(), wait);
  } catch (...) {
    failure.note();
  }
  return again;
}

// Of those who were refused and may not be by now one asks, so that each unit that becomes free costs as many
// commands in a crowd as for one caller. Who has waited for a part of the time that there is asks, too.
std::optional<Instant> Calls::await_news(const Call& call, const Rows& rows, Basis& basis, const Wait& wait) {
  const Wait part = wait.share(4);
  while (known_.is_being_asked(call) && !part.deadline.passed()) {
    transport::pause(kPauseForNews, wait.interrupted);
    if (Instant time{}; decide_here(call, rows, time, basis)) return time;
  }
  return std::nullopt;
}

Instant Calls::decide(const Call& asked, const Rows& rows, Basis& basis, const Wait& wait) {
  if (const std::optional<Instant> decided = await_news(asked, rows, basis, wait)) return *decided;
  const Call call = with_reading(asked);
  if (call.charges.size() == 1) return decide_in_slot(call, rows, basis, wait);
  if (leasing_.may_cut(call)) {
    if (const std::optional<Instant> decided = decide_cut(call, rows, basis, wait)) return *decided;
  }
  return decide_rest(call, rows, basis, wait);
}

Instant Calls::decide_rest(const Call& call, const Rows& rows, Basis& basis, const Wait& wait) {
  if (call.charges.size() == 1) return decide_in_slot(call, rows, basis, wait);
  const std::vector<Slot> parts = parts_of(call);
  if (!parts.empty()) return decide_across(call, parts, rows, basis, wait);
  return decide_in_slot(call, rows, basis, wait);
}

// Commands go first, and what is leased is taken last. If that is gone by then, what was charged goes back,
// and the whole call is asked for.
std::optional<Instant> Calls::decide_cut(const Call& call, const Rows& rows, Basis& basis, const Wait& wait) {
  LeasedParts leased(leasing_, call);
  if (!leased.are_some()) return std::nullopt;
  const Instant time = decide_rest(leased.rest(), leased.rows_of_rest(), basis, wait);
  const std::span<const Status> verdicts(leased.rows_of_rest().status, leased.rows_of_rest().count);
  const bool admits = std::ranges::all_of(verdicts, [](Status each) { return each == Status::ok; });
  if (admits && !leased.take()) {
    take_back(leased.rest(), leased.rows_of_rest().receipts(), basis, wait);
    return std::nullopt;
  }
  leased.note_time(time);
  leased.show(time, rows);
  return time;
}

Instant Calls::decide_in_slot(const Call& call, const Rows& rows, Basis& basis, const Wait& wait) {
  Instant time{};
  Deciding deciding(*this, call, rows, time, basis, false);
  run(deciding, wait);
  return time;
}

// Each in one slot. Those that have been decided when it throws have their times.
void Calls::decide_together(std::span<const Call> calls, const Rows& rows, std::span<Instant> times,
                            std::span<Basis> bases, const Wait& wait) {
  std::size_t row = 0;
  for (std::size_t first = 0; first < calls.size(); first += kInFlight) {
    std::deque<Deciding> deciding;
    std::vector<Exchange*> exchanges;
    for (std::size_t i = first; i < std::min(calls.size(), first + kInFlight); ++i) {
      const Rows own = rows_of(rows, row, pairs_of(calls[i].charges));
      row += own.count;
      exchanges.push_back(
          &deciding.emplace_back(*this, with_reading(calls[i]), own, times[i], bases[i], false));
    }
    run(exchanges, wait).raise_if_any();
  }
}

// In their order. A call across slots is under way alone, so that no other is refused by what it takes back.
// What may be decided here follows the calls before it that concern one of its keys.
void Calls::decide_many(std::span<const Call> calls, const Rows& rows, std::span<Instant> times,
                        std::span<Basis> bases, const Wait& wait) {
  std::vector<std::size_t> first_rows{0};
  for (const Call& call : calls) first_rows.push_back(first_rows.back() + pairs_of(call.charges));
  const auto rows_of_calls = [&](std::size_t first, std::size_t last) {
    return rows_of(rows, first_rows[first], first_rows[last] - first_rows[first]);
  };
  const auto is_decided_here = [&](std::size_t i) {
    return decide_here(calls[i], rows_of_calls(i, i + 1), times[i], bases[i]);
  };
  const auto is_asked_alone = [&](const Call& call) {
    return leasing_.may_cut(call) || !slots_across(call.charges).empty();
  };
  const bool knows = known_.are_told() || leasing_.is_on();
  std::size_t decided = calls.size();  // ahead of its turn
  for (std::size_t first = 0, next = 0; first < calls.size(); first = next) {
    next = first + 1;
    if (decided == first || is_decided_here(first)) continue;
    if (is_asked_alone(calls[first])) {
      times[first] = decide(calls[first], rows_of_calls(first, next), bases[first], wait);
      continue;
    }
    for (; next < calls.size() && !is_asked_alone(calls[next]); ++next) {
      if (!knows) continue;
      if (have_common_key(calls.subspan(first, next - first), calls[next])) break;
      if (is_decided_here(next)) {
        decided = next;
        break;
      }
    }
    const std::size_t count = next - first;
    if (count == 1) {
      times[first] = decide(calls[first], rows_of_calls(first, next), bases[first], wait);
    } else {
      decide_together(calls.subspan(first, count), rows_of_calls(first, next), times.subspan(first, count),
                      bases.subspan(first, count), wait);
    }
  }
}

void Calls::give_back_all(const Wait& wait) {
  GiveBacks all = give_backs(GiveBackTo::all_keys);
  Batch batch(servers_);
  all.add_to(batch);
  batch.run(wait);
  all.read(batch);
}

// Those that were not executed, as their slots have moved.
void Calls::follow_give_backs(const Wait& wait) {
  GiveBacks moved = give_backs(GiveBackTo::all_keys);
  for (std::size_t i = 0; i < moved.size(); ++i) {
    std::optional<Reply> reply;
    try {
      reply = servers_.run(moved.scripts()[i], wait);
    } catch (const StoreError&) {
    }
    moved.read(i, reply);
  }
}

void Calls::close() {
  if (Leases* const leases = leasing_.wanted()) {
    leases->end_all();
    const Wait wait{servers_.deadline()};
    give_back_all(wait);
    follow_give_backs(wait);
    for (const LeaseReturn& each : leases->take_ended(boot_time()))
      leases->count(each.lease->subject().policy, RedisStore::Units::lapsed, each.units);
  }
  servers_.topology().close();
}

LeaseCounts Calls::leased(const PolicyIdentity& policy) {
  Leases* const leases = leasing_.wanted();
  return leases == nullptr ? LeaseCounts{} : leases->counts(policy);
}

}  // namespace overlimit::redis
