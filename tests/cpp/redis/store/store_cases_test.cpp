// The cases of every store and the traces of tests/vectors, on the one in Redis.
#include <gtest/gtest.h>

#include "../../stores/store_cases.hpp"
#include "../../vectors/vector_cases.hpp"
#include "live_redis.hpp"

namespace overlimit::testing {
namespace {

std::unique_ptr<Store> in_redis() { return redis::LiveRedis().store(); }

INSTANTIATE_TEST_SUITE_P(InRedis, EveryStore, ::testing::Values(&in_redis));
INSTANTIATE_TEST_SUITE_P(InRedis, Vectors,
                         ::testing::Combine(::testing::Values(&in_redis), ::testing::ValuesIn(all_vectors())),
                         name_of_vector);

}  // namespace
}  // namespace overlimit::testing
