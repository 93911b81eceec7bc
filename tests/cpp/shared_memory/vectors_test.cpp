// The traces of tests/vectors on the store in shared memory.
#include "../vectors/vector_cases.hpp"

#include <gtest/gtest.h>

#include "own_file.hpp"

namespace overlimit::testing {
namespace {

class SharedMemoryVectors : public ::testing::TestWithParam<std::string> {};

TEST_P(SharedMemoryVectors, AreAnsweredAsTheySay) {
  OwnSharedMemoryStore store;
  play_vector(store, GetParam());
}

INSTANTIATE_TEST_SUITE_P(InSharedMemory, SharedMemoryVectors, ::testing::ValuesIn(all_vectors()),
                         [](const auto& vector) { return vector.param; });

}  // namespace
}  // namespace overlimit::testing
