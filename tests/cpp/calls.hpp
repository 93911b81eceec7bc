// Asking a store, whichever it is, one call at a time.
#pragma once

#include <initializer_list>
#include <optional>
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

  [[nodiscard]] Status status() const { return decision.status; }
  [[nodiscard]] bool allowed() const { return decision.status == Status::ok; }
};

inline Answer ask(Store& store, const Call& call) {
  Columns columns(pairs_of(call.charges));
  Instant time(-1);
  Basis basis;
  store.decide(std::span(&call, 1), columns.rows(), std::span(&time, 1), std::span(&basis, 1), {});
  const Decision decision = fold(call.charges, columns.rows());
  return {decision, std::move(columns), time};
}

inline std::vector<Charge> charges_of(const CompiledPolicy& policy,
                                      std::initializer_list<std::string_view> identifiers, Cost cost) {
  std::vector<Charge> charges;
  for (const std::string_view identifier : identifiers) charges.push_back({&policy, identifier, cost});
  return charges;
}

/// At an instant that is also the real time, by which expired keys are dropped.
inline Answer hit(Store& store, const CompiledPolicy& policy,
                  std::initializer_list<std::string_view> identifiers, At now, Cost cost = 1) {
  return ask(store, {charges_of(policy, identifiers, cost), Mode::consume, now, true});
}

inline Answer peek(Store& store, const CompiledPolicy& policy,
                   std::initializer_list<std::string_view> identifiers, At now, Cost cost = 1) {
  return ask(store, {charges_of(policy, identifiers, cost), Mode::peek, now, true});
}

}  // namespace overlimit::testing
