#include "redis/wire/keys.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace overlimit::redis {
namespace {

TEST(KeyOf, JoinsPrefixVersionPolicyAndIdentifier) {
  EXPECT_EQ(key_of({"ol"}, "login", "ip:203.0.113.7"), "ol1:login:ip:203.0.113.7");
  EXPECT_EQ(key_of({"p"}, "q", ""), "p1:q:");
}

TEST(KeyOf, KeepsIdentifiersUpTo256Bytes) {
  const std::string identifier(256, 'x');
  EXPECT_EQ(key_of({"ol"}, "p", identifier), "ol1:p:" + identifier);
}

TEST(KeyOf, HashesLongerIdentifiers) {
  EXPECT_EQ(key_of({"ol"}, "p", std::string(257, 'x')).size(), std::string("ol1:p#").size() + 64);
  EXPECT_EQ(key_of({"ol"}, "p", std::string(1'000'000, 'a')),
            "ol1:p#cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0")
      << "the known answer of SHA-256 to a million times the letter a";
}

TEST(KeyOf, KeepsEveryByteOfAnIdentifier) {
  const std::string identifier("a\0:#{}\xff\r\n", 9);
  EXPECT_EQ(key_of({"ol"}, "p", identifier), "ol1:p:" + identifier);
}

TEST(KeyOf, PutsBracesAroundWhatKeysHaveInCommon) {
  EXPECT_EQ(key_of({"ol", HashTag::policy}, "login", "ip:1"), "{ol1:login}:ip:1");
  EXPECT_EQ(key_of({"ol", HashTag::prefix}, "login", "ip:1"), "{ol1}:login:ip:1");
  const std::string long_one(257, 'x');
  const std::string hash = key_of({"ol"}, "p", long_one).substr(5);
  EXPECT_EQ(key_of({"ol", HashTag::policy}, "p", long_one), "{ol1:p}" + hash);
  EXPECT_EQ(key_of({"ol", HashTag::prefix}, "p", long_one), "{ol1}:p" + hash);
  EXPECT_EQ(hash[0], '#');
}

TEST(KeyOf, HashesAnyIdentifierWhenTold) {
  EXPECT_EQ(key_of({"ol", HashTag::none, true}, "p", "abc"),
            "ol1:p#ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")
      << "the known answer of SHA-256";
  const std::string long_one(257, 'x');
  EXPECT_EQ(key_of({"ol", HashTag::none, true}, "p", long_one), key_of({"ol"}, "p", long_one));
}

TEST(PatternsOf, MatchTheKeysOfThePolicyHashedOrNot) {
  using Patterns = std::array<std::string, 2>;
  EXPECT_EQ(patterns_of({"ol"}, "p"), (Patterns{"ol1:p:*", "ol1:p#*"}));
  EXPECT_EQ(patterns_of({"ol", HashTag::policy}, "p"), (Patterns{"{ol1:p}:*", "{ol1:p}#*"}));
  EXPECT_EQ(patterns_of({"ol", HashTag::prefix, true}, "p"), (Patterns{"{ol1}:p:*", "{ol1}:p#*"}));
}

TEST(KeyOf, GivesNoTwoPairsTheSameKey) {
  const std::string long_one(300, 'x');
  const std::string hash = key_of({"ol"}, "p", long_one).substr(6);
  const std::set<std::string> keys{
      key_of({"ol"}, "p", "q:r"), key_of({"ol"}, "p.q", "r"),    key_of({"ol"}, "p", long_one),
      key_of({"ol"}, "p", hash),  key_of({"ol"}, "q", long_one), key_of({"ol"}, "p", long_one + "x"),
  };
  EXPECT_EQ(keys.size(), 6U);
}

}  // namespace
}  // namespace overlimit::redis
