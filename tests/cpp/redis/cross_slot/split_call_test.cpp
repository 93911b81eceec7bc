#include "redis/cross_slot/split_call.hpp"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "../../columns.hpp"
#include "../../limits.hpp"
#include "overlimit/errors.hpp"

namespace overlimit::redis {
namespace {

using testing::Columns;
using testing::fixed_window;
using testing::kMinute;

class SplitCalls : public ::testing::Test {
 protected:
  SplitCall split(const std::function<bool(const Charge&)>& goes_first = [](const Charge&) {
    return false;
  }) {
    return {call, slots, goes_first};
  }
  /// Two rows for each charge, told apart by `remaining`.
  static void number(const Rows& rows, std::int64_t from) {
    for (std::size_t row = 0; row < rows.count; ++row) {
      rows.status[row] = Status::ok;
      rows.remaining[row] = from + std::int64_t(row);
    }
  }

  const CompiledPolicy policy{"p", {fixed_window(5, kMinute), fixed_window(9, 2 * kMinute)}};
  std::vector<Charge> charges{{&policy, "a"}, {&policy, "b"}, {&policy, "c"}};
  Call call{charges};
  const std::array<protocol::Slot, 3> slots{7, 3, 7};
};

TEST_F(SplitCalls, HaveAPartForEachSlotWhoseRowsGoBackToTheirCharges) {
  SplitCall both = split();
  ASSERT_EQ(both.parts().size(), 2U);
  EXPECT_EQ(both.parts()[0].charges.size(), 2U);
  EXPECT_EQ(both.parts()[1].charges.front().identifier, "b");
  EXPECT_EQ(both.leading(), 2U) << "all are charged at once";
  number(both.parts()[0].rows, 10);
  number(both.parts()[1].rows, 20);
  EXPECT_TRUE(both.admits());
  Columns whole(pairs_of(charges));
  both.copy_rows(whole.rows());
  EXPECT_EQ(whole.remaining, (std::vector<std::int64_t>{10, 11, 20, 21, 12, 13}));
  both.parts()[1].rows.status[1] = Status::over;
  EXPECT_FALSE(both.admits());
  ASSERT_EQ(both.refusing().size(), 1U);
  EXPECT_EQ(both.refusing().front()->identifier, "b");
}

TEST_F(SplitCalls, AreNotRefusedByALimitThatChargesWhateverHappens) {
  charges[1].role = Role::always;
  call.charges = charges;
  SplitCall both = split();
  for (const CallPart& part : both.parts()) number(part.rows, 0);
  both.parts()[1].rows.status[0] = Status::over;
  EXPECT_TRUE(both.admits());
  EXPECT_TRUE(both.refusing().empty());
  both.parts()[0].rows.status[3] = Status::over;
  EXPECT_FALSE(both.admits());
  ASSERT_EQ(both.refusing().size(), 1U);
  EXPECT_EQ(both.refusing().front()->identifier, "c");
}

TEST_F(SplitCalls, ChargeFirstWhatMayRefuseAndReadTheOthers) {
  SplitCall ordered = split([](const Charge& charge) { return charge.identifier == "b"; });
  EXPECT_EQ(ordered.leading(), 1U);
  EXPECT_EQ(ordered.parts()[0].slot, 3);
  const std::vector<Call> calls = ordered.calls(0, ordered.leading());
  EXPECT_EQ(calls[0].mode, Mode::consume);
  EXPECT_EQ(calls[1].mode, Mode::peek);
  EXPECT_EQ(ordered.calls(1, 2).size(), 1U);
}

TEST_F(SplitCalls, CannotBeOfRolesThatDependOnAllSlots) {
  for (const Role role : {Role::shadow, Role::on_refusal}) {
    charges[1].role = role;
    call.charges = charges;
    EXPECT_THROW((void)split(), CrossSlot);
  }
  charges[1].role = Role::always;
  call.charges = charges;
  EXPECT_EQ(split().parts().size(), 2U);
}

TEST(RecentRefusals, AreOfTheKeysThatRefusedLately) {
  RecentRefusals refusals;
  EXPECT_FALSE(refusals.has("a"));
  refusals.note("a");
  EXPECT_TRUE(refusals.has("a"));
  for (int i = 0; i < 10'000; ++i) refusals.note(std::to_string(i));
  EXPECT_TRUE(refusals.has("a")) << "a flood of others does not push it out";
  EXPECT_FALSE(refusals.has("9999")) << "there is room for some thousand";
}

}  // namespace
}  // namespace overlimit::redis
