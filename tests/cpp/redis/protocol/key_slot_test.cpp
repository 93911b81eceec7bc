#include "redis/protocol/cluster_slots.hpp"

#include <gtest/gtest.h>

#include <string>

namespace overlimit::redis::protocol {
namespace {

TEST(KeySlot, IsTheChecksumOfTheSpecification) {
  EXPECT_EQ(key_slot("123456789"), 0x31C3 % 16384) << "the check value of CRC16/XMODEM";
  EXPECT_EQ(key_slot(""), 0);
  EXPECT_EQ(key_slot("foo"), 12182) << "as CLUSTER KEYSLOT answers";
}

TEST(KeySlot, IsThatOfTheTagWhereThereIsOne) {
  EXPECT_EQ(key_slot("{user1000}.following"), key_slot("user1000"));
  EXPECT_EQ(key_slot("foo{bar}{zap}"), key_slot("bar"));
  EXPECT_EQ(key_slot("foo{{bar}}zap"), key_slot("{bar"));
}

TEST(KeySlot, TakesTheWholeKeyWhereTheTagIsEmptyOrUnclosed) {
  for (const char* key : {"foo{}{bar}", "foo{bar", "foo}bar{", "{}"}) {
    EXPECT_NE(key_slot(key), key_slot("bar")) << key;
    EXPECT_NE(key_slot(key), key_slot("")) << key;
  }
}

TEST(KeySlot, TakesAnyBytes) {
  EXPECT_LT(key_slot(std::string("\xff\0\x80", 3)), kSlots);
  EXPECT_NE(key_slot(std::string("a\0b", 3)), key_slot("a"));
}

}  // namespace
}  // namespace overlimit::redis::protocol
