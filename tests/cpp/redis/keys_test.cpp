#include "redis/keys.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "redis/hex.hpp"

namespace overlimit::redis {
namespace {

TEST(KeyOf, JoinsPrefixVersionPolicyAndIdentifier) {
  EXPECT_EQ(key_of("ol", "login", "ip:203.0.113.7"), "ol1:login:ip:203.0.113.7");
  EXPECT_EQ(key_of("p", "q", ""), "p1:q:");
}

TEST(KeyOf, KeepsIdentifiersUpTo256Bytes) {
  const std::string identifier(256, 'x');
  EXPECT_EQ(key_of("ol", "p", identifier), "ol1:p:" + identifier);
}

TEST(KeyOf, HashesLongerIdentifiers) {
  EXPECT_EQ(key_of("ol", "p", std::string(257, 'x')).size(), std::string("ol1:p#").size() + 64);
  EXPECT_EQ(key_of("ol", "p", std::string(1'000'000, 'a')),
            "ol1:p#cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0")
      << "the known answer of SHA-256 to a million times the letter a";
}

TEST(KeyOf, KeepsEveryByteOfAnIdentifier) {
  const std::string identifier("a\0:#{}\xff\r\n", 9);
  EXPECT_EQ(key_of("ol", "p", identifier), "ol1:p:" + identifier);
}

TEST(KeyOf, GivesNoTwoPairsTheSameKey) {
  const std::string long_one(300, 'x');
  const std::string hash = key_of("ol", "p", long_one).substr(6);
  const std::set<std::string> keys{
      key_of("ol", "p", "q:r"), key_of("ol", "p.q", "r"),    key_of("ol", "p", long_one),
      key_of("ol", "p", hash),  key_of("ol", "q", long_one), key_of("ol", "p", long_one + "x"),
  };
  EXPECT_EQ(keys.size(), 6U);
}

TEST(Hex, IsLowercaseAndTwoDigitsAByte) {
  const unsigned char bytes[] = {0x00, 0x0f, 0xa0, 0xff};
  EXPECT_EQ(hex(bytes), "000fa0ff");
  EXPECT_EQ(hex({}), "");
}

}  // namespace
}  // namespace overlimit::redis
