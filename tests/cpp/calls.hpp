// Asking a store, whichever it is, one call at a time.
#pragma once

#include <initializer_list>
#include <string_view>
#include <utility>
#include <vector>

#include "columns.hpp"
#include "overlimit/decision.hpp"
#include "overlimit/store.hpp"

namespace overlimit::testing {

struct Answer {
  Decision decision;
  Columns columns;
  Instant time;
  Basis basis{};

  [[nodiscard]] Status status() const { return decision.status; }
  [[nodiscard]] bool allowed() const { return decision.status == Status::ok; }
};

inline Answer ask(Store& store, const Call& call, const Interrupted& interrupted = {}) {
  Columns columns(pairs_of(call.charges));
  Instant time(-1);
  Basis basis;
  store.decide(std::span(&call, 1), columns.rows(), std::span(&time, 1), std::span(&basis, 1), interrupted);
  const Decision decision = fold(call.charges, columns.rows());
  return {decision, std::move(columns), time, basis};
}

inline std::vector<Charge> charges_of(const CompiledPolicy& policy,
                                      std::initializer_list<std::string_view> identifiers, Cost cost) {
  std::vector<Charge> charges;
  for (const std::string_view identifier : identifiers) charges.push_back({&policy, identifier, cost});
  return charges;
}

/// At an instant that is also the real time, by which expired keys are dropped.
inline Call call_of(std::span<const Charge> charges, At now, Mode mode = Mode::consume) {
  return {charges, mode, now, true};
}

inline Answer hit(Store& store, const CompiledPolicy& policy,
                  std::initializer_list<std::string_view> identifiers, At now, Cost cost = 1) {
  return ask(store, call_of(charges_of(policy, identifiers, cost), now));
}

inline Answer peek(Store& store, const CompiledPolicy& policy,
                   std::initializer_list<std::string_view> identifiers, At now, Cost cost = 1) {
  return ask(store, call_of(charges_of(policy, identifiers, cost), now, Mode::peek));
}

inline std::int64_t left(Store& store, const CompiledPolicy& policy, std::string_view identifier, At now) {
  return peek(store, policy, {identifier}, now, 0).decision.remaining;
}

inline void refund(Store& store, const CompiledPolicy& policy,
                   std::initializer_list<std::string_view> identifiers, const Answer& answer, Cost cost,
                   At now) {
  store.refund(call_of(charges_of(policy, identifiers, cost), now), answer.columns.receipt, {});
}

inline void lock(Store& store, const CompiledPolicy& policy,
                 std::initializer_list<std::string_view> identifiers, For duration, At now) {
  store.lock(call_of(charges_of(policy, identifiers, 1), now), duration, {});
}

inline void reset(Store& store, const CompiledPolicy& policy,
                  std::initializer_list<std::string_view> identifiers) {
  store.reset(policy.identity(), {identifiers.begin(), identifiers.size()}, {});
}

}  // namespace overlimit::testing
