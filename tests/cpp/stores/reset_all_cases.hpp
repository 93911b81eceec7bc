// Forgetting a whole policy.
#pragma once

#include <string>

#include "store_cases.hpp"

namespace overlimit::testing {

class ResetAll : public StoreCase {
 protected:
  const CompiledPolicy policy{"p", {fixed_window(1, kMinute)}, Penalty{{kMinute}}};
};

TEST_P(ResetAll, ForgetsEveryIdentifierOfThePolicy) {
  std::vector<std::string> names;
  for (int i = 0; i < 3'000; ++i) names.push_back("id:" + std::to_string(i));
  names.emplace_back(300, 'x');
  names.emplace_back("a\0*[b]\\?\xff", 9);
  for (const std::string& name : names) ASSERT_TRUE(hit(policy, {name}, 0).allowed());
  store->reset_all(policy, {});
  for (const std::string& name : names) ASSERT_TRUE(hit(policy, {name}, 0).allowed()) << name;
}

TEST_P(ResetAll, TouchesNoOtherPolicyWhateverItIsCalled) {
  std::vector<CompiledPolicy> others;
  for (const char* name : {"p2", "p.p", "pp", "P", "p-", "q"}) {
    others.emplace_back(name, std::vector{fixed_window(1, kMinute)});
  }
  const std::string long_one(300, 'x');
  for (const CompiledPolicy& other : others) hit(other, {"p", "p:p", long_one}, 0);
  hit(policy, {"p"}, 0);
  store->reset_all(policy, {});
  for (const CompiledPolicy& other : others) {
    for (const std::string_view name :
         {std::string_view("p"), std::string_view("p:p"), std::string_view(long_one)}) {
      EXPECT_FALSE(hit(other, {name}, 0).allowed()) << other.name();
    }
  }
}

}  // namespace overlimit::testing
