#include "redis/wire/told_values.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "packing.hpp"

namespace overlimit::redis {
namespace {

using protocol::Reply;
using testing::bytes_of;
using testing::packed;
using testing::record_of;
using testing::value_of;

std::string with_size(const std::string& value) {
  return bytes_of(static_cast<std::uint32_t>(value.size())) + value;
}

std::string record(Tag tag, const std::string& cells = "") {
  return record_of(tag, 900, packed({1, 2, 3}) + cells);
}

// Two limits, one with a cell, and a record of another.
const std::string kValue = value_of(5, {record(7, packed({8, 9})), record(11), record(13)});
const std::string kOther = value_of(6, {record(7), record(11)});

TEST(ToldIn, GivesWhatWasChargedOfWholeValues) {
  const ToldReply told = told_in(Reply::string("c" + packed({100}) + kValue), {2});
  std::string plain = "C" + packed({100}) + kValue.substr(0, 8 + 44) + record(11);
  EXPECT_EQ(told.reply.as_text(), plain.replace(9 + 8 + 8, 4, bytes_of(std::uint32_t{40})));
  ASSERT_EQ(told.keys.size(), 1);
  EXPECT_EQ(told.keys[0].value, kValue);
  EXPECT_EQ(told.keys[0].created_at, 5);
  EXPECT_EQ(told.now, 100);
}

TEST(ToldIn, GivesWhatIsLeased) {
  const ToldReply told = told_in(Reply::string("l" + packed({100, 3}) + kOther), {2});
  EXPECT_EQ(told.reply.as_text(), "L" + packed({100, 3}) + kOther);
  EXPECT_EQ(told.keys.at(0).value, kOther);
}

TEST(ToldIn, TellsOfEachKey) {
  const ToldReply told = told_in(Reply::string("c" + packed({100}) + with_size(kOther) + kValue), {2, 1});
  EXPECT_EQ(told.reply.as_text().substr(0, 1), "C");
  EXPECT_EQ(told.keys.at(0).value, kOther);
  EXPECT_EQ(told.keys.at(1).value, kValue);
}

TEST(ToldIn, TellsWhatWasFoundAndWhatIsWritten) {
  const std::string creations = packed({5, 0});
  const ToldReply told = told_in(Reply::string("w" + packed({100}) + creations + with_size("") +
                                               with_size(kOther) + with_size(kValue) + kOther),
                                 {2, 2});
  EXPECT_EQ(told.reply.as_text(), "W" + packed({100}) + creations + with_size("") + kOther);
  EXPECT_EQ(told.keys.at(0).value, kValue);
  EXPECT_EQ(told.keys.at(1).value, kOther);
}

TEST(ToldIn, LeavesOtherRepliesAsTheyAre) {
  const std::string found = "F" + packed({100}) + with_size(kValue) + kOther;
  const ToldReply read = told_in(Reply::string(std::string(found)), {2, 2});
  EXPECT_EQ(read.reply.as_text(), found);
  EXPECT_EQ(read.keys.at(0).value, kValue);
  EXPECT_EQ(told_in(Reply::string("F" + packed({100})), {2}).keys.at(0).value, "");

  const std::string long_ago = "C" + packed({100, 5}) + record(7);
  const ToldReply charged = told_in(Reply::string(std::string(long_ago)), {1});
  EXPECT_EQ(charged.reply.as_text(), long_ago);
  EXPECT_EQ(charged.keys.at(0).value, std::nullopt);
  EXPECT_EQ(charged.keys.at(0).created_at, 5);

  EXPECT_TRUE(told_in(Reply::string("O" + packed({100})), {1}).keys.empty());
  EXPECT_TRUE(told_in(Reply::nil(), {1}).keys.empty());
}

TEST(ToldIn, MakesNothingOfWhatNoScriptHasWritten) {
  for (const std::string& whole :
       {"c" + packed({100}) + with_size(kOther) + kValue, "l" + packed({100, 3}) + with_size(kOther) + kValue,
        "w" + packed({100, 5, 5}) + with_size("") + with_size(kOther) + with_size(kValue) + kOther}) {
    for (std::size_t size = 0; size < whole.size(); ++size) {
      const ToldReply told = told_in(Reply::string(whole.substr(0, size)), {2, 2});
      for (const ToldValue& key : told.keys) EXPECT_LE(key.value.value_or("").size(), whole.size());
    }
    std::string huge = whole;
    huge.replace(9 + 8, 4, "\xff\xff\xff\xff");
    (void)told_in(Reply::string(std::move(huge)), {2, 2});
  }
}

}  // namespace
}  // namespace overlimit::redis
