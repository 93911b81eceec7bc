#include "redis/plain/plain_calls.hpp"

#include <algorithm>
#include <deque>

#include "redis/wire/keys.hpp"

namespace overlimit::redis {
namespace {

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

// Each in one slot. Those that have been decided when it throws have their times.
void decide_together(StoreClient& store, std::span<const Call> calls, const Rows& rows,
                     std::span<Instant> times, std::span<Basis> bases, const Wait& wait) {
  std::size_t row = 0;
  for (std::size_t first = 0; first < calls.size(); first += kInFlight) {
    std::deque<DecideExchange> deciding;
    std::vector<Exchange*> exchanges;
    for (std::size_t i = first; i < std::min(calls.size(), first + kInFlight); ++i) {
      const Rows own = rows_of(rows, row, pairs_of(calls[i].charges));
      row += own.count;
      exchanges.push_back(&deciding.emplace_back(store, with_reading(calls[i]), own, times[i], bases[i]));
    }
    store.run(exchanges, wait).raise_if_any();
  }
}

}  // namespace

Instant PlainCalls::decide(const Call& call, const Rows& rows, Basis& basis, const Wait& wait) {
  Instant time{};
  DecideExchange deciding(store_, call, rows, time, basis);
  store_.run(deciding, wait);
  return time;
}

void PlainCalls::refund(const Call& call, std::span<const Receipt> receipts, Present* present,
                        const Wait& wait) {
  Basis basis;
  RefundExchange refunding(store_, call, receipts, present, basis);
  const StoreClient::Changes changes = store_.announce({.keys = refunding.keys()});
  store_.run(refunding, wait);
}

// A refund is sent with its text: nobody learns whether the server has the script.
void PlainCalls::send_refund(const Call& call, std::span<const Receipt> receipts, Basis& basis,
                             const Wait& wait) {
  ++basis.commands;
  const ScriptCall script =
      refund_call(call, keys_of(store_.naming(), call), receipts, false, store_.scripts());
  store_.servers().send(script.eval(), script.keys.front(), wait);
  store_.for_each_observer(
      [&](Observer& each) { each.changes_unheard(script.keys, store_.servers().timeout()); });
}

void PlainCalls::lock(const Call& asked, Duration duration, const Interrupted& interrupted) {
  std::vector<std::string_view> identifiers;
  for (const Charge& each : asked.charges) identifiers.push_back(each.identifier);
  naming_timeout(store_.servers().timeout(), [&] {
    Basis basis;
    LockExchange locking(store_, with_reading(asked), duration, basis);
    const StoreClient::Changes changes = store_.announce({.keys = locking.keys(),
                                                          .kind = Change::Kind::lock,
                                                          .policy = asked.charges.front().policy->name(),
                                                          .identifiers = identifiers});
    store_.run(locking, {store_.servers().deadline(), interrupted});
  });
}

void PlainCalls::reset(const PolicyIdentity& policy, std::span<const std::string_view> identifiers,
                       const Interrupted& interrupted) {
  if (identifiers.empty()) return;
  const std::vector<std::string> keys = keys_of(store_.naming(), policy, identifiers);
  const StoreClient::Changes changes =
      store_.announce({keys, Change::Kind::reset, policy.name(), identifiers});
  store_.servers().reset(keys, interrupted);
}

void PlainCalls::reset_all(const PolicyIdentity& policy, const Interrupted& interrupted) {
  const auto starts = starts_of(store_.naming(), policy.name());
  const StoreClient::Changes changes =
      store_.announce({.keys = {}, .kind = Change::Kind::reset, .policy = policy.name(), .starts = starts});
  const auto unlink = [&](const std::vector<std::string>& keys) {
    store_.servers().unlink(keys, interrupted);
  };
  store_.servers().for_each_page(patterns_of(store_.naming(), policy.name()), unlink, interrupted);
}

// In their order. A call across slots is under way alone, so that no other is refused by what it refunds.
// What may be decided here follows the calls before it that concern one of its keys.
void decide_many(StoreClient& store, std::span<const Call> calls, const Rows& rows, std::span<Instant> times,
                 std::span<Basis> bases, const Wait& wait) {
  Calls& top = store.top();
  std::vector<std::size_t> first_rows{0};
  for (const Call& call : calls) first_rows.push_back(first_rows.back() + pairs_of(call.charges));
  const auto rows_of_calls = [&](std::size_t first, std::size_t last) {
    return rows_of(rows, first_rows[first], first_rows[last] - first_rows[first]);
  };
  const auto is_decided_here = [&](std::size_t i) {
    return top.decide_here(calls[i], {}, rows_of_calls(i, i + 1), times[i], bases[i]);
  };
  const bool knows = top.may_decide_here();
  std::size_t decided = calls.size();  // ahead of those before it
  for (std::size_t first = 0, next = 0; first < calls.size(); first = next) {
    next = first + 1;
    if (decided == first || is_decided_here(first)) continue;
    const bool is_alone = top.is_decided_apart(calls[first]);
    for (; !is_alone && next < calls.size() && !top.is_decided_apart(calls[next]); ++next) {
      if (!knows) continue;
      if (have_common_key(calls.subspan(first, next - first), calls[next])) break;
      if (is_decided_here(next)) {
        decided = next;
        break;
      }
    }
    const std::size_t count = next - first;
    if (count == 1) {
      times[first] = top.decide(with_reading(calls[first]), rows_of_calls(first, next), bases[first], wait);
    } else {
      decide_together(store, calls.subspan(first, count), rows_of_calls(first, next),
                      times.subspan(first, count), bases.subspan(first, count), wait);
    }
  }
}

}  // namespace overlimit::redis
