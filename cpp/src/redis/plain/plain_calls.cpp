#include "redis/plain/plain_calls.hpp"

#include <algorithm>
#include <deque>

#include "redis/plain/batch.hpp"
#include "redis/wire/keys.hpp"

namespace overlimit::redis {
namespace {

using protocol::Reply;

/// How many calls are under way at the same time.
constexpr std::size_t kInFlight = 64;

bool is_of_one_key(const Charge& one, const Charge& other) {
  return one.identifier == other.identifier && one.policy->name() == other.policy->name();
}

bool have_common_key(std::span<const Call> calls, const Call& other) {
  return std::ranges::any_of(calls, [&](const Call& call) {
    return std::ranges::any_of(call.charges, [&](const Charge& one) {
      return std::ranges::any_of(other.charges, [&](const Charge& two) { return is_of_one_key(one, two); });
    });
  });
}

}  // namespace

PlainCalls::PlainCalls(Location location, KeyNaming keys, Duration timeout)
    : naming_(std::move(keys)), servers_(std::move(location), timeout), keyspace_([this] {
        return std::make_unique<std::shared_ptr<Keyspace>>(Keyspace::of(servers_.location(), naming_));
      }) {}

void PlainCalls::add(Layer& layer, std::optional<Observer::Keeps> what) {
  layers_.push_back(&layer);
  if (what) keepers_[std::size_t(*what)] = &layer;
}

std::vector<std::string> PlainCalls::keys_of(const Call& call) const { return redis::keys_of(naming_, call); }

std::vector<std::string> PlainCalls::keys_of(const PolicyIdentity& policy,
                                             std::span<const std::string_view> identifiers) const {
  std::vector<std::string> all;
  for (const std::string_view each : identifiers) all.push_back(redis::key_of(naming_, policy.name(), each));
  return all;
}

PlainCalls::Changes PlainCalls::announce(const Change& change) {
  Changes changes;
  for_each_observer([&](Observer& each) {
    if (std::unique_ptr<Observation> observation = each.observe_change(change))
      changes.push_back(std::move(observation));
  });
  return changes;
}

// Until its reply counts. What a reply that does not count says was charged is undone before.
void PlainCalls::run(Exchange& exchange, const Wait& wait) {
  Exchange* const one = &exchange;
  for (;;) {
    for (Layer* const layer : layers_) layer->precede({&one, 1}, wait);
    exchange.prepare(*this);
    if (exchange.accepts(ask(exchange, wait))) return;
    const std::optional<ScriptCall> refund = exchange.undoing();
    if (!refund) continue;
    for (Layer* const layer : layers_) layer->undo({&*refund, 1}, exchange.basis(), wait);
  }
}

/// What goes in front of decisions: it is sent once.
class Releases {
 public:
  Releases(PlainCalls& store, std::span<Exchange* const> before) {
    if (!before.front()->decides()) return;
    store.for_each_observer([&](Observer& each) { each.add_releases(store, releases_); });
    for (const auto& each : releases_) {
      each->prepare(store);
      for (Exchange* const later : before) later->comes_after(each->keys());
    }
    before.front()->basis().commands += std::uint32_t(releases_.size());
  }

  [[nodiscard]] bool empty() const { return releases_.empty(); }
  [[nodiscard]] std::size_t size() const { return releases_.size(); }
  void add_to(Batch& batch) const {
    for (const auto& each : releases_)
      batch.add(each->script(), each->is_sent_with_text() ? Batch::By::text : Batch::By::name);
  }
  void take(Batch& batch) {
    for (std::size_t i = 0; i < releases_.size(); ++i) releases_[i]->arrived(batch.received(i));
  }

 private:
  std::vector<std::unique_ptr<Exchange>> releases_;
};

// What goes in front of it is not sent again; the script is, if it was not executed.
Reply PlainCalls::ask(Exchange& exchange, const Wait& wait) {
  ++exchange.basis().commands;
  Exchange* const one = &exchange;
  try {
    Releases before(*this, {&one, 1});
    if (before.empty()) return servers_.run(exchange.script(), wait);
    Batch batch(servers_);
    before.add_to(batch);
    batch.add(exchange.script(), Batch::By::name);
    batch.run(wait);
    before.take(batch);
    if (!batch.received(before.size())) batch.failure().raise_if_any();
    return batch.reply(before.size(), wait);
  } catch (const StoreError& error) {
    if (error.maybe_charged()) exchange.lost();
    throw;
  }
}

FirstError PlainCalls::run(std::span<Exchange* const> exchanges, const Wait& wait) {
  FirstError failure;
  std::vector<Exchange*> left(exchanges.begin(), exchanges.end());
  while (!left.empty() && !failure) left = ask(left, failure, wait);
  return failure;
}

// What was answered counts, whatever happens to the others. Returns those whose replies do not; what these
// say was charged is undone then.
std::vector<Exchange*> PlainCalls::ask(std::span<Exchange* const> exchanges, FirstError& failure,
                                       const Wait& wait) {
  for (Layer* const layer : layers_) layer->precede(exchanges, wait);
  for (Exchange* const each : exchanges) {
    each->prepare(*this);
    ++each->basis().commands;
  }
  Releases before(*this, exchanges);
  Batch batch(servers_);
  before.add_to(batch);
  for (Exchange* const each : exchanges) batch.add(each->script(), Batch::By::in_order);
  batch.run(wait);
  before.take(batch);
  failure = batch.failure();
  std::vector<Exchange*> again;
  std::vector<ScriptCall> refunds;
  for (std::size_t k = 0; k < exchanges.size(); ++k) {
    Exchange& each = *exchanges[k];
    const std::size_t i = before.size() + k;
    each.was_redirected = batch.was_redirected(i);
    try {
      if (!batch.received(i)) {
        if (batch.failure().maybe_charged()) each.lost();
        continue;
      }
      if (each.accepts(batch.reply(i, wait))) continue;
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
    for (Layer* const layer : layers_)
      if (!refunds.empty()) layer->undo(refunds, again.front()->basis(), wait);
  } catch (...) {
    failure.note();
  }
  return again;
}

// The first goes with its text, as the others mostly come to the same server; one that lacks it is asked
// again.
std::vector<Reply> PlainCalls::replies_to(std::span<const ScriptCall* const> scripts, const Wait& wait) {
  std::vector<Reply> replies;
  if (scripts.size() == 1) {
    replies.push_back(servers_.run(*scripts.front(), wait));
    return replies;
  }
  Batch batch(servers_);
  for (const ScriptCall* const each : scripts)
    batch.add(*each, batch.size() == 0 ? Batch::By::text : Batch::By::name);
  batch.run(wait);
  batch.failure().raise_if_any();
  for (std::size_t i = 0; i < scripts.size(); ++i) replies.push_back(batch.reply(i, wait));
  return replies;
}

Instant PlainCalls::decide(const Call& call, const Rows& rows, Basis& basis, const Wait& wait) {
  Instant time{};
  Deciding deciding(*this, call, rows, time, basis);
  run(deciding, wait);
  return time;
}

// In their order. A call across slots is under way alone, so that no other is refused by what it refunds.
// What may be decided here follows the calls before it that concern one of its keys.
void PlainCalls::decide_many(std::span<const Call> calls, const Rows& rows, std::span<Instant> times,
                             std::span<Basis> bases, const Wait& wait) {
  std::vector<std::size_t> first_rows{0};
  for (const Call& call : calls) first_rows.push_back(first_rows.back() + pairs_of(call.charges));
  const auto rows_of_calls = [&](std::size_t first, std::size_t last) {
    return rows_of(rows, first_rows[first], first_rows[last] - first_rows[first]);
  };
  const auto is_decided_here = [&](std::size_t i) {
    return top().decide_here(calls[i], {}, rows_of_calls(i, i + 1), times[i], bases[i]);
  };
  const auto is_asked_alone = [&](const Call& call) { return top().is_decided_apart(call); };
  const bool knows = top().may_decide_here();
  std::size_t decided = calls.size();  // ahead of those before it
  for (std::size_t first = 0, next = 0; first < calls.size(); first = next) {
    next = first + 1;
    if (decided == first || is_decided_here(first)) continue;
    if (is_asked_alone(calls[first])) {
      times[first] = top().decide(with_reading(calls[first]), rows_of_calls(first, next), bases[first], wait);
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
      times[first] = top().decide(with_reading(calls[first]), rows_of_calls(first, next), bases[first], wait);
    } else {
      decide_together(calls.subspan(first, count), rows_of_calls(first, next), times.subspan(first, count),
                      bases.subspan(first, count), wait);
    }
  }
}

// Each in one slot. Those that have been decided when it throws have their times.
void PlainCalls::decide_together(std::span<const Call> calls, const Rows& rows, std::span<Instant> times,
                                 std::span<Basis> bases, const Wait& wait) {
  std::size_t row = 0;
  for (std::size_t first = 0; first < calls.size(); first += kInFlight) {
    std::deque<Deciding> deciding;
    std::vector<Exchange*> exchanges;
    for (std::size_t i = first; i < std::min(calls.size(), first + kInFlight); ++i) {
      const Rows own = rows_of(rows, row, pairs_of(calls[i].charges));
      row += own.count;
      exchanges.push_back(&deciding.emplace_back(*this, with_reading(calls[i]), own, times[i], bases[i]));
    }
    run(exchanges, wait).raise_if_any();
  }
}

void PlainCalls::refund(const Call& call, std::span<const Receipt> receipts, Present* present,
                        const Wait& wait) {
  Basis basis;
  Refunding refunding(*this, call, receipts, present, basis);
  const Changes changes = announce({.keys = refunding.keys()});
  run(refunding, wait);
}

// A refund is sent with its text: nobody learns whether the server has the script.
void PlainCalls::send_refund(const Call& call, std::span<const Receipt> receipts, Basis& basis,
                             const Wait& wait) {
  ++basis.commands;
  const ScriptCall script = refund_call(call, keys_of(call), receipts, false, scripts_);
  servers_.send(script.eval(), script.keys.front(), wait);
  for_each_observer([&](Observer& each) { each.changes_unheard(script.keys, servers_.timeout()); });
}

void PlainCalls::lock(const Call& asked, Duration duration, const Interrupted& interrupted) {
  std::vector<std::string_view> identifiers;
  for (const Charge& each : asked.charges) identifiers.push_back(each.identifier);
  naming_timeout(servers_.timeout(), [&] {
    Basis basis;
    Locking locking(*this, with_reading(asked), duration, basis);
    const Changes changes = announce({.keys = locking.keys(),
                                      .kind = Change::Kind::lock,
                                      .policy = asked.charges.front().policy->name(),
                                      .identifiers = identifiers});
    run(locking, {servers_.deadline(), interrupted});
  });
}

void PlainCalls::reset(const PolicyIdentity& policy, std::span<const std::string_view> identifiers,
                       const Interrupted& interrupted) {
  if (identifiers.empty()) return;
  const std::vector<std::string> keys = keys_of(policy, identifiers);
  const Changes changes = announce({keys, Change::Kind::reset, policy.name(), identifiers});
  servers_.reset(keys, interrupted);
}

void PlainCalls::reset_all(const PolicyIdentity& policy, const Interrupted& interrupted) {
  const auto starts = starts_of(naming_, policy.name());
  const Changes changes =
      announce({.keys = {}, .kind = Change::Kind::reset, .policy = policy.name(), .starts = starts});
  const auto unlink = [&](const std::vector<std::string>& keys) { servers_.unlink(keys, interrupted); };
  servers_.for_each_page(patterns_of(naming_, policy.name()), unlink, interrupted);
}

}  // namespace overlimit::redis
