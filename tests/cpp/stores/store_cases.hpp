// What holds for every store: cases that the tests of each include and run on theirs.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <initializer_list>
#include <memory>
#include <string_view>
#include <vector>

#include "../calls.hpp"
#include "../limits.hpp"

namespace overlimit::testing {

/// Makes an empty store.
using MakeStore = std::unique_ptr<Store> (*)();

class StoreCase : public ::testing::TestWithParam<MakeStore> {
 protected:
  Answer hit(const CompiledPolicy& policy, std::initializer_list<std::string_view> identifiers, Micros now,
             Cost cost = 1) {
    return testing::hit(*store, policy, identifiers, now, cost);
  }
  Answer peek(const CompiledPolicy& policy, std::initializer_list<std::string_view> identifiers, Micros now,
              Cost cost = 1) {
    return testing::peek(*store, policy, identifiers, now, cost);
  }
  Answer call(const std::vector<Charge>& charges, Micros now, Mode mode = Mode::consume) {
    return ask(*store, {charges, mode, now, true});
  }
  std::int64_t left(const CompiledPolicy& policy, std::string_view identifier, Micros now) {
    return peek(policy, {identifier}, now, 0).decision.remaining;
  }
  void refund(const std::vector<Charge>& charges, const Answer& answer, Micros now) {
    store->refund({charges, Mode::consume, now, true}, answer.columns.receipt, {});
  }
  void refund(const CompiledPolicy& policy, std::initializer_list<std::string_view> identifiers,
              const Answer& answer, Micros now, Cost cost = 1) {
    refund(charges_of(policy, identifiers, cost), answer, now);
  }
  void lock(const CompiledPolicy& policy, std::initializer_list<std::string_view> identifiers, Micros now,
            Micros duration) {
    store->lock({charges_of(policy, identifiers, 1), Mode::consume, now, true}, duration, {});
  }
  void reset(const CompiledPolicy& policy, std::string_view identifier) {
    const std::string_view identifiers[] = {identifier};
    store->reset(policy, identifiers, {});
  }

  const std::unique_ptr<Store> store{GetParam()()};
};

}  // namespace overlimit::testing
