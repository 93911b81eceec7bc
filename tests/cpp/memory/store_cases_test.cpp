// The cases of every store, on the one in memory.
#include "overlimit/memory_store.hpp"

#include <gtest/gtest.h>

#include "../stores/calendar_cases.hpp"
#include "../stores/history_cases.hpp"
#include "../stores/lock_cases.hpp"
#include "../stores/penalty_cases.hpp"
#include "../stores/refund_cases.hpp"
#include "../stores/reset_all_cases.hpp"

namespace overlimit::testing {
namespace {

std::unique_ptr<Store> in_memory() { return std::make_unique<MemoryStore>(); }

INSTANTIATE_TEST_SUITE_P(InMemory, Refunds, ::testing::Values(&in_memory));
INSTANTIATE_TEST_SUITE_P(InMemory, Locks, ::testing::Values(&in_memory));
INSTANTIATE_TEST_SUITE_P(InMemory, Penalties, ::testing::Values(&in_memory));
INSTANTIATE_TEST_SUITE_P(InMemory, ResetAll, ::testing::Values(&in_memory));
INSTANTIATE_TEST_SUITE_P(InMemory, CalendarWindows, ::testing::Values(&in_memory));
INSTANTIATE_TEST_SUITE_P(InMemory, LongHistories, ::testing::Values(&in_memory));
INSTANTIATE_TEST_SUITE_P(InMemory, Queues, ::testing::Values(&in_memory));

}  // namespace
}  // namespace overlimit::testing
