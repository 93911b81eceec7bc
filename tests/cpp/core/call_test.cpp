#include "overlimit/call.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "../limits.hpp"

namespace overlimit {
namespace {

using testing::fixed_window;
using testing::kMinute;

class Settling : public ::testing::Test {
 protected:
  struct Judged {
    Role role;
    Status verdict;
    Cost cost = 1;
  };
  Settlement settled(const std::vector<Judged>& judged) {
    std::vector<Charge> charges;
    for (const Judged& one : judged) charges.push_back({&policy, "x", one.cost, one.role});
    return settle(Call{charges}, [&](std::size_t i) { return judged[i].verdict; });
  }
  const CompiledPolicy policy{"p", {fixed_window(1, kMinute)}};
};

TEST_F(Settling, PassesWhenAllEnforcedChargesDo) {
  EXPECT_TRUE(settled({{Role::enforce, Status::ok}, {Role::enforce, Status::ok}}).passes);
  EXPECT_FALSE(settled({{Role::enforce, Status::ok}, {Role::enforce, Status::over}}).passes);
  EXPECT_FALSE(settled({{Role::enforce, Status::locked}}).passes);
  EXPECT_FALSE(settled({{Role::enforce, Status::never}}).passes);
}

TEST_F(Settling, AsksNoShadow) {
  EXPECT_TRUE(settled({{Role::shadow, Status::over}, {Role::enforce, Status::ok}}).passes);
  EXPECT_TRUE(settled({{Role::shadow, Status::never}}).passes);
}

TEST_F(Settling, ChargesAShadowThatPassesItself) {
  const Settlement settlement = settled({{Role::enforce, Status::ok}});
  EXPECT_TRUE(settlement.charges(Role::shadow, Status::ok));
  EXPECT_FALSE(settlement.charges(Role::shadow, Status::over));
  EXPECT_FALSE(settled({{Role::enforce, Status::over}}).charges(Role::shadow, Status::ok));
}

TEST_F(Settling, CountsOnlyWhatIsOverAsARefusal) {
  const auto counts = [&](Status enforced) {
    return settled({{Role::enforce, enforced}, {Role::on_refusal, Status::ok}}).counts_refusal;
  };
  EXPECT_TRUE(counts(Status::over));
  EXPECT_FALSE(counts(Status::ok));
  EXPECT_FALSE(counts(Status::locked));
  EXPECT_FALSE(counts(Status::never));
}

TEST_F(Settling, CountsNoRefusalWithoutAMetaLimitOrRoomInEach) {
  EXPECT_FALSE(settled({{Role::enforce, Status::over}}).counts_refusal);
  EXPECT_FALSE(
      settled(
          {{Role::enforce, Status::over}, {Role::on_refusal, Status::ok}, {Role::on_refusal, Status::over}})
          .counts_refusal);
}

TEST_F(Settling, CountsNoRefusalOfACallThatSpendsNothing) {
  EXPECT_FALSE(settled({{Role::enforce, Status::over, 0}, {Role::on_refusal, Status::ok}}).counts_refusal);
}

TEST_F(Settling, DoesNotPassWhenAMetaLimitIsUsedUp) {
  const Settlement settlement = settled({{Role::enforce, Status::ok}, {Role::on_refusal, Status::over}});
  EXPECT_FALSE(settlement.passes);
  EXPECT_FALSE(settlement.charges(Role::enforce, Status::ok));
  EXPECT_FALSE(settlement.charges(Role::on_refusal, Status::over));
}

TEST_F(Settling, ChargesTheMetaLimitOrTheOthersButNeverBoth) {
  const Settlement refusal = settled({{Role::enforce, Status::over}, {Role::on_refusal, Status::ok}});
  EXPECT_TRUE(refusal.charges(Role::on_refusal, Status::ok));
  EXPECT_FALSE(refusal.charges(Role::enforce, Status::ok));
  const Settlement success = settled({{Role::enforce, Status::ok}, {Role::on_refusal, Status::ok}});
  EXPECT_FALSE(success.charges(Role::on_refusal, Status::ok));
  EXPECT_TRUE(success.charges(Role::enforce, Status::ok));
}

TEST_F(Settling, AsksAMetaLimitForOneRefusalWhateverTheCost) {
  EXPECT_EQ(cost_of({&policy, "x", 7, Role::on_refusal}), 1);
  EXPECT_EQ(cost_of({&policy, "x", 0, Role::on_refusal}), 1);
  EXPECT_EQ(cost_of({&policy, "x", 7, Role::enforce}), 7);
  EXPECT_EQ(cost_of({&policy, "x", 7, Role::shadow}), 7);
}

TEST_F(Settling, SpendsWhenAnyChargeButAMetaLimitCosts) {
  const Charge free{&policy, "x", 0, Role::enforce};
  const Charge costly{&policy, "y", 1, Role::shadow};
  const Charge meta{&policy, "z", 1, Role::on_refusal};
  EXPECT_TRUE(spends(std::to_array({free, costly})));
  EXPECT_FALSE(spends(std::to_array({free, meta})));
}

TEST_F(Settling, PunishesARefusalThatSpendsAndCouldEverFit) {
  const auto may_lock = [&](std::vector<Judged> judged) { return settled(judged).may_lock; };
  EXPECT_TRUE(may_lock({{Role::enforce, Status::over}}));
  EXPECT_TRUE(may_lock({{Role::enforce, Status::locked}})) << "where locks extend";
  EXPECT_TRUE(may_lock({{Role::enforce, Status::ok}, {Role::on_refusal, Status::over}}));
  EXPECT_FALSE(may_lock({{Role::enforce, Status::ok}}));
  EXPECT_FALSE(may_lock({{Role::enforce, Status::never}}));
  EXPECT_FALSE(may_lock({{Role::enforce, Status::over}, {Role::enforce, Status::never}}));
  EXPECT_FALSE(may_lock({{Role::enforce, Status::over, 0}}));
  EXPECT_FALSE(may_lock({{Role::shadow, Status::over}}));
}

// What a call does to the lock of one of its charges.
class LockingAfterRefusal : public Settling {
 protected:
  std::optional<Instant> lock_end(Role role, Status own, Status status, Cost cost = 1,
                                  const std::optional<Lock>& lock = std::nullopt) {
    const Charge charge{&strict, "x", cost, role};
    const Settlement settlement{.status = status, .passes = false, .may_lock = true};
    const auto set = lock_after_refusal(settlement, charge, own, lock, At(1'000));
    return set ? std::optional(set->end) : std::nullopt;
  }
  const Lock held{At(500), At(1'100), 1, false, At(2'000)};
  const CompiledPolicy strict{"s", {fixed_window(1, kMinute)}, testing::penalty({100, 400}, true)};
};

TEST_F(LockingAfterRefusal, LocksWhoIsOverInACallThatIsOver) {
  EXPECT_EQ(lock_end(Role::enforce, Status::over, Status::over), 1'100);
  EXPECT_EQ(lock_end(Role::on_refusal, Status::over, Status::over), 1'100);
  EXPECT_EQ(lock_end(Role::enforce, Status::ok, Status::over), std::nullopt);
  EXPECT_EQ(lock_end(Role::shadow, Status::over, Status::over), std::nullopt);
  EXPECT_EQ(lock_end(Role::enforce, Status::over, Status::over, 0), std::nullopt);
}

TEST_F(LockingAfterRefusal, LocksNobodyInACallThatIsLockedOrNever) {
  EXPECT_EQ(lock_end(Role::enforce, Status::over, Status::locked), std::nullopt);
  EXPECT_EQ(lock_end(Role::enforce, Status::over, Status::never), std::nullopt);
  EXPECT_EQ(lock_end(Role::enforce, Status::never, Status::never), std::nullopt);
}

TEST_F(LockingAfterRefusal, ExtendsTheLockOfWhoIsLockedInACallThatIsLocked) {
  EXPECT_EQ(lock_end(Role::enforce, Status::locked, Status::locked, 1, held), 1'100);
  EXPECT_EQ(lock_end(Role::enforce, Status::locked, Status::over, 1, held), std::nullopt);
  EXPECT_EQ(lock_end(Role::enforce, Status::locked, Status::locked, 0, held), std::nullopt);
  EXPECT_EQ(lock_end(Role::shadow, Status::locked, Status::locked, 1, held), std::nullopt);
}

TEST_F(LockingAfterRefusal, DoesNothingInACallThatDoesNotPunishOrAPolicyWithoutPenalty) {
  const Charge charge{&strict, "x"};
  const Charge lenient{&policy, "x"};
  EXPECT_FALSE(lock_after_refusal({.status = Status::over}, charge, Status::over, std::nullopt, At(0)));
  EXPECT_FALSE(lock_after_refusal({.status = Status::over, .may_lock = true}, lenient, Status::over,
                                  std::nullopt, At(0)));
}

}  // namespace
}  // namespace overlimit
