#include "overlimit/uninitialised_array.hpp"

#include <gtest/gtest.h>

namespace overlimit {
namespace {

struct Named {
  int number;
  const char* name = "none";
};
static_assert(sizeof(UninitialisedArray<Named, 3>) == 3 * sizeof(Named));

TEST(UninitialisedArray, HoldsTheValuesThatWereMade) {
  UninitialisedArray<Named, 3> array;
  EXPECT_EQ(array.emplace(2, 7, "seven").number, 7);
  array.emplace(0, 5);
  EXPECT_EQ(array[2].number, 7);
  EXPECT_STREQ(array[2].name, "seven");
  EXPECT_STREQ(array.data()[0].name, "none");
}

}  // namespace
}  // namespace overlimit
