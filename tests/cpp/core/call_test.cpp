// What tests/vectors/roles.json and the same histories on both stores do not reach.
#include "overlimit/call.hpp"

#include <gtest/gtest.h>

#include <array>

#include "../limits.hpp"

namespace overlimit {
namespace {

using namespace testing;

class Settling : public ::testing::Test {
 protected:
  // The first charge is over, the second as it says.
  Resolution resolved(Cost cost, Role role, Status verdict) const {
    const std::array charges{Charge{&policy, "x", cost}, Charge{&policy, "y", 1, role}};
    return resolve(Call{charges}, [&](std::size_t i) { return i == 0 ? Status::over : verdict; });
  }
  const CompiledPolicy policy{"p", {fixed_window(1, kMinute)}};
};

TEST_F(Settling, CountsNoRefusalOfACallThatSpendsNothing) {
  EXPECT_TRUE(resolved(1, Role::on_refusal, Status::ok).counts_refusal);
  EXPECT_FALSE(resolved(0, Role::on_refusal, Status::ok).counts_refusal);
}

TEST_F(Settling, AsksNoShadow) {
  EXPECT_EQ(resolved(1, Role::shadow, Status::never).status, Status::over);
  EXPECT_EQ(resolved(1, Role::enforce, Status::never).status, Status::never);
}

}  // namespace
}  // namespace overlimit
