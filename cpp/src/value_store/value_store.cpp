#include "overlimit/value_store.hpp"

#include <algorithm>
#include <chrono>
#include <random>
#include <set>

#include "breaker/breaker_of_calls.hpp"
#include "overlimit/stopwatch.hpp"
#include "value_store/key_names.hpp"
#include "value_store/steps.hpp"

namespace overlimit {
namespace {

/// How many calls are decided together at most.
constexpr std::size_t kTogether = 64;

/// Of each charge, in the order of the charges.
std::vector<std::string> keys_of(std::span<const Call> calls) {
  std::vector<std::string> keys;
  for (const Call& call : calls) {
    for (const Charge& charge : call.charges) {
      keys.push_back(values::key_of(charge.policy->identity(), charge.identifier));
    }
  }
  return keys;
}

/// How many of these calls, from the first on, have no more keys than that together.
std::size_t count_together(std::span<const Call> calls, std::size_t max_keys) {
  std::set<std::string> keys;
  const std::size_t most = std::min(calls.size(), kTogether);
  for (std::size_t count = 0; count < most; ++count) {
    keys.merge([&] {
      auto own = keys_of(calls.subspan(count, 1));
      return std::set<std::string>(own.begin(), own.end());
    }());
    if (keys.size() > max_keys) return std::max<std::size_t>(1, count);
  }
  return most;
}

}  // namespace

ValueStore::ValueStore() : breaker_(std::make_unique<BreakerOfCalls>(std::random_device{}())) {}

ValueStore::~ValueStore() = default;

BreakerState ValueStore::breaker() const { return breaker_->state(); }

/// What is no StoreError, such as Ctrl-C, says nothing about the store, nor does the caller's mistake.
void ValueStore::attempt(const std::shared_ptr<ValueStep>& step, TransactionTime& time) {
  using std::chrono::steady_clock;
  BreakerOfCalls::Attempt call(*breaker_, steady_clock::now());
  try {
    transact(step, time);
  } catch (const CallerMistake&) {
    throw;
  } catch (const StoreError& error) {
    call.failed(steady_clock::now(), error);
    throw;
  }
  call.succeeded(steady_clock::now());
}

void ValueStore::decide_one(const Call& call, const Rows& rows, Instant& time, Basis& /*basis*/,
                            const Interrupted& /*interrupted*/) {
  const auto deciding = std::make_shared<values::DecideStep>(std::span(&call, 1), keys_of({&call, 1}));
  TransactionTime within{call.timeout};
  attempt(deciding, within);
  deciding->tell(rows, {&time, 1});
}

void ValueStore::decide(std::span<const Call> calls, const Rows& rows, std::span<Instant> times,
                        std::span<Basis> /*bases*/, const Interrupted& /*interrupted*/) {
  if (calls.empty()) return;
  TransactionTime within{calls.front().timeout};
  const std::size_t most = max_keys();
  std::size_t row = 0;
  while (!calls.empty()) {
    const std::span<const Call> together = calls.first(count_together(calls, most));
    const auto deciding = std::make_shared<values::DecideStep>(together, keys_of(together));
    std::size_t pairs = 0;
    for (const Call& call : together) pairs += pairs_of(call.charges);
    attempt(deciding, within);
    deciding->tell(rows_of(rows, row, pairs), times.first(together.size()));
    row += pairs;
    calls = calls.subspan(together.size());
    times = times.subspan(together.size());
  }
}

void ValueStore::refund_showing(const Call& call, std::span<const Receipt> receipts, Present* present,
                                const Interrupted& /*interrupted*/) {
  const auto refunding = std::make_shared<values::RefundStep>(call, receipts, present, keys_of({&call, 1}));
  TransactionTime within{call.timeout};
  attempt(refunding, within);
  if (present != nullptr) refunding->tell(*present);
}

void ValueStore::lock(const Call& call, Duration duration, const Interrupted& /*interrupted*/) {
  TransactionTime within{call.timeout};
  attempt(std::make_shared<values::LockStep>(call, duration, keys_of({&call, 1})), within);
}

void ValueStore::unlock(const Call& call, const Interrupted& interrupted) {
  lock(call, Duration{}, interrupted);
}

void ValueStore::reset(const PolicyIdentity& policy, std::span<const std::string_view> identifiers,
                       const Interrupted& /*interrupted*/) {
  std::vector<std::string> keys;
  for (const std::string_view each : identifiers) keys.push_back(values::key_of(policy, each));
  reset_keys(std::move(keys));
}

void ValueStore::reset_all(const PolicyIdentity& policy, const Interrupted& /*interrupted*/) {
  for (const std::string& start : values::starts_of(policy)) reset_keys(scan(start));
}

// One after the other, each in a time of its own: there may be many.
void ValueStore::reset_keys(std::vector<std::string> keys) {
  const std::size_t most = max_keys();
  for (std::size_t first = 0; first < keys.size(); first += most) {
    const auto own = std::span(keys).subspan(first, std::min(most, keys.size() - first));
    TransactionTime within;
    attempt(std::make_shared<values::ResetStep>(std::vector<std::string>(own.begin(), own.end())), within);
  }
}

Duration ValueStore::ping(std::optional<Duration> timeout, const Interrupted& /*interrupted*/) {
  const Stopwatch stopwatch;
  TransactionTime within{timeout};
  attempt(std::make_shared<values::ReadStep>(std::vector<std::string>{"overlimit:ping"}), within);
  return stopwatch.elapsed();
}

}  // namespace overlimit
