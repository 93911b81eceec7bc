// The cases of every store and the traces of tests/vectors, on the one in memory.
#include "overlimit/memory_store.hpp"

#include <gtest/gtest.h>

#include "../stores/store_cases.hpp"
#include "../vectors/vector_cases.hpp"

namespace overlimit::testing {
namespace {

std::unique_ptr<Store> in_memory() { return std::make_unique<MemoryStore>(); }

INSTANTIATE_TEST_SUITE_P(InMemory, EveryStore, ::testing::Values(&in_memory));
INSTANTIATE_TEST_SUITE_P(InMemory, Vectors,
                         ::testing::Combine(::testing::Values(&in_memory),
                                            ::testing::ValuesIn(all_vectors())),
                         name_of_vector);

}  // namespace
}  // namespace overlimit::testing
