#include "redis/plain/values_in_use.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>

namespace overlimit::redis {
namespace {

std::string name(std::size_t i) { return "key:" + std::to_string(i); }

std::map<std::string, int> all_of(const ValuesInUse<int>& values) {
  std::map<std::string, int> found;
  values.for_each([&](const std::string& key, int value) { found[key] = value; });
  return found;
}

TEST(ValuesInUse, KeepAllThatThereIsRoomFor) {
  ValuesInUse<int> values(100, 1000);
  std::map<std::string, int> model;
  std::mt19937 random(1);  // NOLINT(cert-msc51-cpp)
  for (int step = 0; step < 10'000; ++step) {
    const std::string key = name(random() % 100);
    if (random() % 3 == 0) {
      values.erase(key);
      model.erase(key);
    } else {
      values.put(key, step, random() % 11);
      model[key] = step;
    }
    const int* const found = values.find(name(random() % 100));
    ASSERT_TRUE(found == nullptr || *found <= step);
  }
  EXPECT_EQ(all_of(values), model);
  values.clear();
  EXPECT_TRUE(all_of(values).empty());
}

TEST(ValuesInUse, LetNewcomersMakeRoomForEachOther) {
  ValuesInUse<int> values(8, 1000);
  for (std::size_t i = 0; i < 6; ++i) {
    values.put(name(i), 0, 1);
    EXPECT_NE(values.find(name(i)), nullptr);
  }
  for (std::size_t i = 6; i < 100; ++i) values.put(name(i), 0, 1);
  for (std::size_t i = 0; i < 6; ++i) EXPECT_NE(values.find(name(i)), nullptr) << i;
  EXPECT_EQ(all_of(values).size(), 8);
  EXPECT_NE(values.find(name(99)), nullptr);
}

TEST(ValuesInUse, LetWhoComesBackTakeTheRoomOfWhoDoesNot) {
  ValuesInUse<int> values(8, 1000);
  for (std::size_t i = 0; i < 100; ++i) {
    values.put(name(i), 0, 1);
    EXPECT_NE(values.find(name(i)), nullptr) << i;
  }
  for (std::size_t i = 94; i < 100; ++i) EXPECT_NE(values.find(name(i)), nullptr) << i;
  EXPECT_EQ(values.find(name(0)), nullptr);
}

TEST(ValuesInUse, KnowManyOfThoseWhoComeInTurnsAlthoughThereIsNoRoomForAll) {
  ValuesInUse<int> values(400, 1000);
  std::size_t found = 0;
  for (std::size_t turn = 0; turn < 20; ++turn) {
    for (std::size_t i = 0; i < 500; ++i) {
      if (values.find(name(i)) != nullptr) ++found;
      values.put(name(i), 0, 1);
    }
  }
  EXPECT_GT(found, std::size_t{19 * 200});
  EXPECT_LT(found, std::size_t{19 * 450});
}

TEST(ValuesInUse, HoldNoMoreBytesThanTheyMay) {
  ValuesInUse<int> values(1000, 100);
  for (std::size_t i = 0; i < 50; ++i) {
    values.put(name(i), 0, 10);
    (void)values.find(name(i / 2));
    EXPECT_LE(all_of(values).size(), 10);
  }
  EXPECT_EQ(all_of(values).size(), 10);
  values.put(name(49), 1, 90);
  EXPECT_EQ(all_of(values).size(), 2);
  values.put("too large", 1, 101);
  EXPECT_EQ(values.find("too large"), nullptr);
}

}  // namespace
}  // namespace overlimit::redis
