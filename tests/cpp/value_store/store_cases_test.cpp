// The cases of every store, on values in a map, and the traces of tests/vectors, of steps that run again,
// too.
#include <gtest/gtest.h>

#include "../stores/store_cases.hpp"
#include "../vectors/vector_cases.hpp"
#include "values_in_map.hpp"

namespace overlimit::testing {
namespace {

std::unique_ptr<Store> in_map() { return std::make_unique<ValuesInMap>(); }
std::unique_ptr<Store> after_conflicts() {
  auto store = std::make_unique<ValuesInMap>();
  store->runs = 3;
  return store;
}

INSTANTIATE_TEST_SUITE_P(OfValues, EveryStore, ::testing::Values(&in_map));
INSTANTIATE_TEST_SUITE_P(OfValues, Vectors,
                         ::testing::Combine(::testing::Values(&after_conflicts),
                                            ::testing::ValuesIn(all_vectors())),
                         name_of_vector);

}  // namespace
}  // namespace overlimit::testing
