#include "redis/wire/script.hpp"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace overlimit::redis {
namespace {

bool holds(const Script& script, std::string_view text) {
  return script.text().find(text) != std::string::npos;
}

TEST(Script, IsKnownByTheSha1OfItsText) {
  EXPECT_EQ(Script("").sha1(), "da39a3ee5e6b4b0d3255bfef95601890afd80709");
  EXPECT_EQ(Script("return 1").sha1(), "e0e1f9fabfc9d4800c877a703b823ac0578ff8db");
  EXPECT_EQ(Script("return 1").text(), "return 1");
}

// The script of the file with this stem, by name.
std::vector<std::pair<std::string, const Script*>> all(const Scripts& scripts) {
  return {{"decide_one", &scripts.decide_one},
          {"decide_several", &scripts.decide_several},
          {"read", &scripts.read},
          {"refund", &scripts.refund},
          {"lock", &scripts.lock},
          {"lease", &scripts.lease},
          {"restore", &scripts.restore}};
}

TEST(Scripts, AreTheSameForEveryStore) {
  const Scripts one;
  const Scripts other;
  for (std::size_t i = 0; i < all(one).size(); ++i) {
    EXPECT_EQ(all(one)[i].second->sha1(), all(other)[i].second->sha1()) << all(one)[i].first;
  }
}

TEST(Scripts, MakeNoFunctionsToDecide) {
  const Scripts scripts;
  EXPECT_FALSE(holds(scripts.decide_one, "function"));
  EXPECT_FALSE(holds(scripts.decide_several, "function"));
}

TEST(Scripts, WriteNothingToRead) {
  const Scripts scripts;
  for (const char* command : {"'SET'", "'DEL'", "'EXPIRE'"}) {
    EXPECT_FALSE(holds(scripts.read, command)) << command;
  }
}

TEST(Scripts, NeverPassNumbersThroughText) {
  const Scripts scripts;
  for (const auto& [name, script] : all(scripts)) {
    EXPECT_FALSE(holds(*script, "tostring")) << name;
    EXPECT_FALSE(holds(*script, "cjson")) << name;
  }
}

TEST(Scripts, ArePlainTextWithUnixLines) {
  const Scripts scripts;
  for (const auto& [name, script] : all(scripts)) {
    EXPECT_EQ(script->text().find('\r'), std::string::npos) << name;
    EXPECT_EQ(script->text().find('\0'), std::string::npos) << name;
    EXPECT_EQ(script->text().back(), '\n') << name;
  }
}

}  // namespace
}  // namespace overlimit::redis
