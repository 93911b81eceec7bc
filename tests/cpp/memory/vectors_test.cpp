// The traces of tests/vectors on the memory store.
#include "../vectors/vector_cases.hpp"

#include <gtest/gtest.h>

#include "overlimit/memory_store.hpp"

namespace overlimit::testing {
namespace {

class Vectors : public ::testing::TestWithParam<std::string> {};

TEST_P(Vectors, AreAnsweredAsTheySay) {
  MemoryStore store;
  play_vector(store, GetParam());
}

INSTANTIATE_TEST_SUITE_P(InMemory, Vectors, ::testing::ValuesIn(all_vectors()),
                         [](const auto& vector) { return vector.param; });

}  // namespace
}  // namespace overlimit::testing
