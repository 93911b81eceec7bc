// The cases of every store, on the one in shared memory.
#include <gtest/gtest.h>

#include "../stores/calendar_cases.hpp"
#include "../stores/history_cases.hpp"
#include "../stores/lock_cases.hpp"
#include "../stores/penalty_cases.hpp"
#include "../stores/refund_cases.hpp"
#include "../stores/reset_all_cases.hpp"
#include "own_file.hpp"

namespace overlimit::testing {
namespace {

std::unique_ptr<Store> in_shared_memory() { return std::make_unique<OwnSharedMemoryStore>(); }

INSTANTIATE_TEST_SUITE_P(InSharedMemory, Refunds, ::testing::Values(&in_shared_memory));
INSTANTIATE_TEST_SUITE_P(InSharedMemory, Locks, ::testing::Values(&in_shared_memory));
INSTANTIATE_TEST_SUITE_P(InSharedMemory, Penalties, ::testing::Values(&in_shared_memory));
INSTANTIATE_TEST_SUITE_P(InSharedMemory, ResetAll, ::testing::Values(&in_shared_memory));
INSTANTIATE_TEST_SUITE_P(InSharedMemory, CalendarWindows, ::testing::Values(&in_shared_memory));
INSTANTIATE_TEST_SUITE_P(InSharedMemory, LongHistories, ::testing::Values(&in_shared_memory));
INSTANTIATE_TEST_SUITE_P(InSharedMemory, Queues, ::testing::Values(&in_shared_memory));

}  // namespace
}  // namespace overlimit::testing
