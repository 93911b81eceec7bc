#include "overlimit/decision.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "../columns.hpp"
#include "../limits.hpp"

namespace overlimit {
namespace {

using testing::Columns;
using testing::fixed_window;
using testing::kMinute;
using testing::token_bucket;

struct Row {
  Status status = Status::ok;
  std::int64_t remaining = 9;
  For retry_after = 0;
  For reset_after = 0;
  For delay = 0;
};

Columns columns_of(const std::vector<Row>& rows) {
  Columns columns(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    columns.status[i] = rows[i].status;
    columns.remaining[i] = rows[i].remaining;
    columns.retry_after[i] = rows[i].retry_after;
    columns.reset_after[i] = rows[i].reset_after;
    columns.delay[i] = rows[i].delay;
  }
  return columns;
}

constexpr Row kNeverRow{.status = Status::never, .retry_after = kNever.micros()};
constexpr Row kOverRow{.status = Status::over, .remaining = 0, .retry_after = 5, .reset_after = 5};

class Folding : public ::testing::Test {
 protected:
  // Canonical order is the reverse of the order given.
  const CompiledPolicy one{"one", {fixed_window(9, kMinute)}};
  const CompiledPolicy two{"two", {token_bucket(9, 1), fixed_window(9, kMinute)}};

  Decision fold_roles(const std::vector<Role>& roles, const std::vector<Row>& rows) {
    std::vector<Charge> charges;
    for (const Role role : roles) charges.push_back({&one, "x", 1, role});
    Columns columns = columns_of(rows);
    return fold(charges, columns.rows());
  }
  Decision fold_rows(const std::vector<Row>& rows) {
    return fold_roles(std::vector<Role>(rows.size(), Role::enforce), rows);
  }
};

TEST_F(Folding, IsAllowedWhenEveryPairIs) {
  const Decision decision = fold_rows({{.remaining = 4}, {.remaining = 3}, {.remaining = 5}});
  EXPECT_EQ(decision.status, Status::ok);
  EXPECT_EQ(decision.retry_after, 0);
}

TEST_F(Folding, IsRefusedWhenAnyPairIs) { EXPECT_EQ(fold_rows({{}, kOverRow, {}}).status, Status::over); }

TEST_F(Folding, IsNeverBeforeLockedBeforeOver) {
  const Row locked{.status = Status::locked, .retry_after = 99};
  EXPECT_EQ(fold_rows({kOverRow, locked, kNeverRow}).status, Status::never);
  EXPECT_EQ(fold_rows({kNeverRow, locked}).status, Status::never);
  EXPECT_EQ(fold_rows({kOverRow, locked}).status, Status::locked);
  EXPECT_EQ(fold_rows({locked, kOverRow}).status, Status::locked);
}

TEST_F(Folding, RemainsWhatTheTightestPairGrants) {
  EXPECT_EQ(fold_rows({{.remaining = 4}, {.remaining = 3}, {.remaining = 5}}).remaining, 3);
  EXPECT_EQ(fold_rows({kNeverRow, {.remaining = 2}}).remaining, 2);
}

TEST_F(Folding, RetriesWhenTheLastThatRefusesMayAllow) {
  EXPECT_EQ(fold_rows({kOverRow, {.status = Status::over, .retry_after = 8}}).retry_after, 8);
  EXPECT_EQ(fold_rows({kOverRow, kNeverRow}).retry_after, kNever);
}

TEST_F(Folding, BindsToTheLeastRemainingWhenAllowed) {
  const Decision decision =
      fold_rows({{.remaining = 4, .reset_after = 9}, {.remaining = 3, .reset_after = 1}});
  EXPECT_EQ(decision.binding_row, 1U);
  EXPECT_EQ(decision.reset_after, 1);
}

TEST_F(Folding, BindsToTheLongestRetryWhenRefusedWhateverRemains) {
  const Decision decision =
      fold_rows({{.remaining = 0, .reset_after = 99},
                 {.status = Status::over, .remaining = 2, .retry_after = 7, .reset_after = 7},
                 kOverRow});
  EXPECT_EQ(decision.binding_row, 1U);
  EXPECT_EQ(decision.reset_after, 7);
}

TEST_F(Folding, BindsToTheLongestResetAmongEquals) {
  EXPECT_EQ(fold_rows({{.reset_after = 3}, {.reset_after = 5}, {.reset_after = 4}}).binding_row, 1U);
  EXPECT_EQ(fold_rows({kOverRow, {.status = Status::over, .retry_after = 5, .reset_after = 6}}).binding_row,
            1U);
}

TEST_F(Folding, BindsToTheFirstChargeGivenAmongEqualsInAll) {
  EXPECT_EQ(fold_rows({{}, {}, {}}).binding_row, 0U);
  EXPECT_EQ(fold_rows({{}, kOverRow, kOverRow}).binding_row, 1U);
  EXPECT_EQ(fold_rows({kNeverRow, kNeverRow}).binding_row, 0U);
}

TEST_F(Folding, BindsToTheFirstLimitGivenAmongEqualsInAll) {
  Columns columns = columns_of({{}, {}, {}, {}});
  const std::vector<Charge> charges{{&two, "x"}, {&two, "y"}};
  EXPECT_EQ(fold(charges, columns.rows()).binding_row, 1U)
      << "the token bucket of x, which is second in canonical order";
  columns = columns_of({{}, {.remaining = 10}, {}, {}});
  EXPECT_EQ(fold(charges, columns.rows()).binding_row, 0U) << "identifiers count before limits";
}

TEST_F(Folding, DelaysForTheLongestDelayOnlyWhenAllowed) {
  EXPECT_EQ(fold_rows({{.delay = 3}, {.delay = 8}, {.delay = 5}}).delay, 8);
  EXPECT_EQ(fold_rows({{.delay = 3}, kOverRow}).delay, 0);
}

TEST_F(Folding, DoesNotListenToShadowsNextToEnforcedCharges) {
  const Decision decision =
      fold_roles({Role::shadow, Role::enforce},
                 {{.status = Status::over, .remaining = 0, .retry_after = 9}, {.remaining = 4}});
  EXPECT_EQ(decision.status, Status::ok);
  EXPECT_EQ(decision.remaining, 4);
  EXPECT_EQ(decision.retry_after, 0);
  EXPECT_EQ(decision.binding_row, 1U);
}

TEST_F(Folding, ListensToShadowsWhenTheyAreAlone) {
  const Decision decision = fold_roles({Role::shadow, Role::shadow}, {{}, kOverRow});
  EXPECT_EQ(decision.status, Status::over);
  EXPECT_EQ(decision.binding_row, 1U);
}

TEST_F(Folding, DoesNotListenToMetaLimitsThatStillGrant) {
  const Decision decision = fold_roles({Role::on_refusal, Role::enforce}, {{.remaining = 0}, kOverRow});
  EXPECT_EQ(decision.binding_row, 1U);
  EXPECT_EQ(decision.retry_after, 5);
}

TEST_F(Folding, RetriesNoEarlierThanAMetaLimitThatCountedTheRefusalGrants) {
  const Decision decision =
      fold_roles({Role::enforce, Role::on_refusal}, {kOverRow, {.remaining = 0, .retry_after = 50}});
  EXPECT_EQ(decision.status, Status::over);
  EXPECT_EQ(decision.retry_after, 50);
  EXPECT_EQ(decision.binding_row, 0U);
}

TEST_F(Folding, LetsMetaLimitsThatAreUsedUpSpeakForTheCall) {
  const Decision decision = fold_roles(
      {Role::enforce, Role::on_refusal},
      {{.remaining = 3}, {.status = Status::over, .remaining = 0, .retry_after = 70, .reset_after = 71}});
  EXPECT_EQ(decision.status, Status::over);
  EXPECT_EQ(decision.binding_row, 1U);
  EXPECT_EQ(decision.retry_after, 70);
  EXPECT_EQ(decision.reset_after, 71);
  EXPECT_EQ(decision.remaining, 0);
}

}  // namespace
}  // namespace overlimit
