#include "overlimit/pair.hpp"

#include <gtest/gtest.h>

#include <ostream>
#include <random>
#include <string>

#include "../limits.hpp"
#include "lone_pair.hpp"

namespace overlimit {
namespace {

using namespace testing;

TEST(Pair, RefusesUntilItIsToldToComeBackAndOnlyWhatItDoesNotAdmit) {
  LonePair pair(fixed_window(2, 50));
  pair.hit(100);
  EXPECT_FALSE(pair.examined(40, 1).refuses_at(Instant(40)));  // it has room, and a later time of its own
  pair.hit(100);
  EXPECT_TRUE(pair.examined(100, 1).refuses_at(Instant(149)));
  EXPECT_FALSE(pair.examined(100, 1).refuses_at(Instant(150)));
  EXPECT_TRUE(pair.examined(100, 3).refuses_at(Instant(1000)));  // which it never admits
}

TEST(Pair, IsDecidedAtItsOwnTimeWhenTheClockIsBehind) {
  LonePair pair(fixed_window(3, kMinute));
  pair.hit(100);
  EXPECT_EQ(pair.examined(40, 1).now, 100);
  EXPECT_EQ(pair.examined(100, 1).now, 100);
  EXPECT_EQ(pair.examined(101, 1).now, 101);
}

TEST(Pair, CountsDurationsFromTheTimeItIsDecidedAt) {
  LonePair pair(fixed_window(1, kMinute));
  pair.hit(100);
  EXPECT_EQ(pair.peek(40, 1), (Shown{Status::over, 0, kMinute, kMinute}));
  pair.change(fixed_window(2, kMinute));
  EXPECT_EQ(pair.hit(40), (Shown{Status::ok, 0, 0, kMinute}));
}

TEST(Pair, IsAbsentFromTheInstantWrittenAsItsExpiry) {
  LonePair pair(fixed_window(1, kMinute));
  pair.hit(0);
  pair.expire_at(30);
  EXPECT_TRUE(pair.examined(29, 1).has_record);
  EXPECT_FALSE(pair.examined(30, 1).has_record);
  EXPECT_EQ(pair.peek(30, 1), (Shown{Status::ok, 1, 0, 0}));
}

TEST(Pair, WaitsNoLongerThanUntilTheExpiryAsWritten) {
  LonePair pair(fixed_window(1, kMinute));
  pair.hit(0);
  pair.expire_at(30);
  EXPECT_EQ(pair.peek(10, 1), (Shown{Status::over, 0, 20, 20}));
}

TEST(Pair, IsNotRevivedByAnExpiryThatIsTooLate) {
  LonePair pair(fixed_window(1, kMinute));
  pair.hit(0);
  pair.expire_at(kMaxTime);
  EXPECT_EQ(pair.peek(kMinute - 1, 1), (Shown{Status::over, 0, 1, 1}));
  EXPECT_EQ(pair.peek(kMinute, 1), (Shown{Status::ok, 1, 0, 0}));
}

TEST(Pair, IsNeverEvenWhenItsRecordExpiresSoon) {
  LonePair pair(fixed_window(1, kMinute));
  pair.hit(0);
  EXPECT_EQ(pair.peek(10, 2).retry_after, kNever);
}

TEST(Pair, ChargedInItsOwnTimeKeepsItsExpiry) {
  LonePair pair(token_bucket(5, 1));
  pair.hit(kSecond);
  pair.hit(0);
  EXPECT_EQ(pair.record()->header, (Header{2 * kSecond, kSecond, kSecond}));
  EXPECT_EQ(pair.record()->expires_at, 3 * kSecond);
}

TEST(Pair, IsRefusedEvenACostOfZeroUnderALoweredLimit) {
  const std::pair<Limit, Limit> lowered[] = {
      {fixed_window(6, 1000), fixed_window(4, 1000)},
      {sliding_window(6, 1000, 50), sliding_window(4, 1000, 50)},
      {bucket_of(6, 700, 3), bucket_of(4, 700, 3)},
      {bucket_of(4, 700, 3, 2), bucket_of(4, 700, 3)},
      {sliding_log(6, 1000), sliding_log(4, 1000)},
      {sliding_window_counter(6, 1000), sliding_window_counter(4, 1000)},
      {leaky_bucket(2, 400, 4), leaky_bucket(2, 400, 2)},
      {paced_bucket(2, 400, 3, 3), paced_bucket(2, 400, 1, 3)},
  };
  for (const auto& [before, after] : lowered) {
    LonePair pair(before);
    pair.hit(7, 6);
    pair.change(after);
    const Shown shown = pair.hit(7, 0);
    EXPECT_EQ(shown.status, Status::over) << after.algorithm_name();
    EXPECT_EQ(shown.remaining, 0) << after.algorithm_name();
    EXPECT_FALSE(pair.allows(7 + shown.retry_after - 1, 0)) << after.algorithm_name();
    EXPECT_TRUE(pair.allows(7 + shown.retry_after, 0)) << after.algorithm_name();
  }
}

TEST(Pair, AtTheEndOfTimeCountsForAPeriodAndExpiresBeforeNumbersAreInexact) {
  for (const Limit& limit : {fixed_window(1, kMaxPeriod), sliding_window(1, kMaxPeriod, kMaxPeriod),
                             sliding_log(1, kMaxPeriod), sliding_window_counter(kExact - 1, kMaxPeriod),
                             leaky_bucket(1, kMaxPeriod, 100), interval_bucket(1, 1, kMaxPeriod)}) {
    LonePair pair(limit);
    const Shown shown = pair.hit(kMaxTime - 1, most(limit));
    EXPECT_EQ(shown.status, Status::ok) << limit.algorithm_name();
    EXPECT_GE(shown.reset_after, kMaxPeriod) << limit.algorithm_name();
    EXPECT_EQ(pair.hit(kMaxTime - 1).status, Status::over) << limit.algorithm_name();
    EXPECT_LT(pair.record()->expires_at, kExact) << limit.algorithm_name();
  }
}

TEST(Pair, OfAChargeHasAReceiptAndOneOfALookHasNone) {
  const Limit limit = fixed_window(3, kMinute);
  Columns columns(2);
  fill_charged(limit, {0, kMinute, 1}, At(5), At(77), columns.rows(), 0);
  fill_uncharged(limit, examine(limit, nullptr, At(5), 1), columns.rows(), 1);
  EXPECT_EQ(columns.receipt[0].created_at, 77);
  EXPECT_EQ(columns.receipt[0].after, (Header{0, kMinute, 1}));
  EXPECT_EQ(columns.receipt[1].created_at, 0);
}

// What holds whatever the algorithm.
struct Candidate {
  const char* name;
  Limit limit;
  bool overdraws = false;  // grants more than remains
};
void PrintTo(const Candidate& candidate, std::ostream* out) { *out << candidate.name; }

class AnyPair : public ::testing::TestWithParam<Candidate> {
 protected:
  LonePair pair{GetParam().limit};
  std::mt19937 random{7};
  Micros now = 1'000'000;

  void let_time_pass() { now += Micros(random() % 400) - 20; }
};

TEST_P(AnyPair, MayRetryAfterExactlyItsRetryAndNotOneMicrosecondEarlier) {
  int refused = 0;
  for (int call = 0; call < 5'000; ++call, let_time_pass()) {
    const auto cost = Cost(random() % 5);
    const Shown shown = pair.hit(now, cost);
    if (shown.status == Status::ok) {
      ASSERT_EQ(shown.retry_after, 0);
      continue;
    }
    ++refused;
    ASSERT_GE(shown.retry_after, 1);
    const Instant decided_at = pair.examined(now, cost).now;
    ASSERT_TRUE(pair.allows(decided_at + shown.retry_after, cost)) << now;
    ASSERT_FALSE(pair.allows(decided_at + shown.retry_after - 1, cost)) << now;
  }
  EXPECT_GT(refused, 500);
  EXPECT_LT(refused, 4'500);
}

TEST_P(AnyPair, IsBackToNeverSeenAfterExactlyItsResetAndNotOneMicrosecondEarlier) {
  for (int call = 0; call < 2'000; ++call, let_time_pass()) {
    const Shown shown = pair.hit(now);
    const Instant decided_at = pair.examined(now, 0).now;
    ASSERT_FALSE(pair.examined(decided_at + shown.reset_after, 0).has_record);
    ASSERT_TRUE(pair.examined(decided_at + shown.reset_after - 1, 0).has_record);
  }
}

TEST_P(AnyPair, AdmitsWhatRemainsAndNotOneMore) {
  for (int call = 0; call < 2'000; ++call, let_time_pass()) {
    const Shown shown = pair.hit(now, Cost(random() % 4));
    if (shown.remaining > 0) {
      ASSERT_TRUE(pair.allows(now, shown.remaining));
    }
    if (!GetParam().overdraws) {
      ASSERT_FALSE(pair.allows(now, shown.remaining + 1));
    }
  }
}

TEST_P(AnyPair, ChangesNothingWhenItRefusesOrSpendsNothing) {
  for (int call = 0; call < 1'000; ++call, let_time_pass()) {
    const auto cost = Cost(random() % 8);
    const std::optional<FoundRecord> before = pair.record();
    const std::vector<Cell> cells = pair.cells();
    const bool charges = pair.hit(now, cost).status == Status::ok && cost > 0;
    if (charges || !before) continue;
    ASSERT_EQ(pair.record()->header, before->header);
    ASSERT_EQ(pair.record()->expires_at, before->expires_at);
    ASSERT_EQ(pair.cells(), cells);
  }
}

TEST_P(AnyPair, GivesBackAllOfAChargeAtOnce) {
  for (int call = 0; call < 1'000; ++call, let_time_pass()) {
    const Shown before = pair.peek(now);
    const auto cost = Cost(1 + random() % 3);
    if (before.status != Status::ok || pair.hit(now, cost).status != Status::ok) continue;
    ASSERT_TRUE(pair.refund(now, pair.receipt(), cost));
    ASSERT_EQ(pair.peek(now).remaining, before.remaining);
    pair.hit(now, cost);
  }
}

// Without the charge a bucket that refills at intervals may begin another phase, and grant later.
class AnyPairWithoutPhase : public AnyPair {};

TEST_P(AnyPairWithoutPhase, GrantsNeverMoreForARefundThanWithoutTheCharge) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    random.seed(seed);
    LonePair without(GetParam().limit);
    LonePair with(GetParam().limit);
    with.hit(now, 1);
    without.hit(now, 1);
    with.hit(now += Micros(random() % 300), 2);
    const Header receipt = with.receipt();
    for (int call = 0; call < 3; ++call) {
      now += Micros(random() % 300);
      const auto cost = Cost(1 + random() % 2);
      if (with.allows(now, cost) && without.allows(now, cost)) {
        with.hit(now, cost);
        without.hit(now, cost);
      }
    }
    with.refund(now, receipt, 2);
    ASSERT_LE(with.peek(now).remaining, without.peek(now).remaining) << seed;
    now += 10'000;
  }
}

const Candidate kWithoutPhase[] = {{"fixed_window", fixed_window(5, 1000)},
                                   {"epoch_window", epoch_window(5, 1000)},
                                   {"sliding_window", sliding_window(6, 1000, 50)},
                                   {"token_bucket", bucket_of(6, 700, 3)},
                                   {"token_bucket_with_debt", bucket_of(3, 700, 3, 4), true},
                                   {"sliding_log", sliding_log(6, 1000)},
                                   {"sliding_window_counter", sliding_window_counter(6, 1000)}};
const Candidate kOthers[] = {{"coarse_sliding_window", sliding_window(6, 1000, 1000)},
                             {"interval_bucket", interval_bucket(6, 2, 400)},
                             {"epoch_interval_bucket", interval_bucket(6, 3, 400, true)},
                             {"leaky_bucket", leaky_bucket(2, 400, 3)},
                             {"paced_leaky_bucket", paced_bucket(2, 400, 3, 2)}};

std::string name_of(const ::testing::TestParamInfo<Candidate>& candidate) { return candidate.param.name; }

INSTANTIATE_TEST_SUITE_P(Algorithms, AnyPair, ::testing::ValuesIn(kWithoutPhase), name_of);
INSTANTIATE_TEST_SUITE_P(OtherAlgorithms, AnyPair, ::testing::ValuesIn(kOthers), name_of);
INSTANTIATE_TEST_SUITE_P(Algorithms, AnyPairWithoutPhase, ::testing::ValuesIn(kWithoutPhase), name_of);

}  // namespace
}  // namespace overlimit
