// The cases of every store and the traces of tests/vectors, on values in a map: of steps that run once, and
// of those that run again.
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

INSTANTIATE_TEST_SUITE_P(OfValues, EveryStore, ::testing::Values(&in_map, &after_conflicts));
INSTANTIATE_TEST_SUITE_P(OfValues, Vectors,
                         ::testing::Combine(::testing::Values(&in_map), ::testing::ValuesIn(all_vectors())),
                         name_of_vector);

}  // namespace
}  // namespace overlimit::testing
