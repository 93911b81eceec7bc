// The traces of tests/vectors on the Redis store.
#include <gtest/gtest.h>

#include "../vectors/vector_cases.hpp"
#include "live_redis.hpp"

namespace overlimit::testing {
namespace {

class Vectors : public ::testing::TestWithParam<std::string> {};

TEST_P(Vectors, AreAnsweredAsTheySay) { play_vector(*redis::LiveRedis().store(), GetParam()); }

INSTANTIATE_TEST_SUITE_P(InRedis, Vectors, ::testing::ValuesIn(all_vectors()),
                         [](const auto& vector) { return vector.param; });

}  // namespace
}  // namespace overlimit::testing
