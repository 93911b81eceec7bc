// The cases of every store, on the one in Redis.
#include <gtest/gtest.h>

#include "../stores/calendar_cases.hpp"
#include "../stores/history_cases.hpp"
#include "../stores/lock_cases.hpp"
#include "../stores/penalty_cases.hpp"
#include "../stores/refund_cases.hpp"
#include "../stores/reset_all_cases.hpp"
#include "live_redis.hpp"

namespace overlimit::testing {
namespace {

std::unique_ptr<Store> in_redis() { return redis::LiveRedis().store(); }

INSTANTIATE_TEST_SUITE_P(InRedis, Refunds, ::testing::Values(&in_redis));
INSTANTIATE_TEST_SUITE_P(InRedis, Locks, ::testing::Values(&in_redis));
INSTANTIATE_TEST_SUITE_P(InRedis, Penalties, ::testing::Values(&in_redis));
INSTANTIATE_TEST_SUITE_P(InRedis, ResetAll, ::testing::Values(&in_redis));
INSTANTIATE_TEST_SUITE_P(InRedis, CalendarWindows, ::testing::Values(&in_redis));
INSTANTIATE_TEST_SUITE_P(InRedis, LongHistories, ::testing::Values(&in_redis));
INSTANTIATE_TEST_SUITE_P(InRedis, Queues, ::testing::Values(&in_redis));

}  // namespace
}  // namespace overlimit::testing
