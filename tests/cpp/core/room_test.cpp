#include "overlimit/room.hpp"

#include <gtest/gtest.h>

namespace overlimit {
namespace {

struct Named {
  int number;
  const char* name = "none";
};

TEST(Room, HoldsWhatIsPutInPlace) {
  Room<Named, 3> room;
  EXPECT_EQ(room.put(2, 7, "seven").number, 7);
  room.put(0, 5);
  EXPECT_EQ(room[2].number, 7);
  EXPECT_STREQ(room[2].name, "seven");
  EXPECT_STREQ(room.data()[0].name, "none");
}

TEST(Room, TakesNoMoreSpaceThanItsValues) { static_assert(sizeof(Room<Named, 3>) == 3 * sizeof(Named)); }

}  // namespace
}  // namespace overlimit
