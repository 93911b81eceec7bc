// The cases of every store and the traces of tests/vectors, on the one in shared memory.
#include <gtest/gtest.h>

#include "../stores/store_cases.hpp"
#include "../vectors/vector_cases.hpp"
#include "own_file.hpp"

namespace overlimit::testing {
namespace {

std::unique_ptr<Store> in_shared_memory() { return std::make_unique<OwnSharedMemoryStore>(); }

INSTANTIATE_TEST_SUITE_P(InSharedMemory, EveryStore, ::testing::Values(&in_shared_memory));
INSTANTIATE_TEST_SUITE_P(InSharedMemory, Vectors,
                         ::testing::Combine(::testing::Values(&in_shared_memory),
                                            ::testing::ValuesIn(all_vectors())),
                         name_of_vector);

}  // namespace
}  // namespace overlimit::testing
