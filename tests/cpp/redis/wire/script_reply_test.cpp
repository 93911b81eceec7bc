#include "redis/wire/script_reply.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "../packing.hpp"

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

using F = ReplyFlags;

Reply reply_of(int flags, const std::string& rest) { return Reply::string(static_cast<char>(flags) + rest); }

// Two limits, one with a cell, and a record of another.
const std::string kValue = value_of(5, {record(7, packed({8, 9})), record(11), record(13)});
const std::string kOther = value_of(6, {record(7), record(11)});

TEST(ScriptReplies, TellOfEachKey) {
  const ScriptReply one(reply_of(F::kCharged | F::kValues, packed({100}) + kValue), 1);
  EXPECT_EQ(one.now(), 100);
  EXPECT_EQ(one.keys().at(0).value, kValue);
  EXPECT_EQ(one.keys().at(0).created_at, 5);
  const ScriptReply two(reply_of(F::kCharged | F::kValues, packed({100}) + with_size(kOther) + kValue), 2);
  EXPECT_EQ(two.keys().at(0).value, kOther);
  EXPECT_EQ(two.keys().at(1).value, kValue);
}

TEST(ScriptReplies, TellWhatIsLeased) {
  const ScriptReply leased(reply_of(F::kGranted | F::kCharged | F::kValues, packed({100, 3}) + kOther), 1);
  EXPECT_EQ(leased.granted(), 3);
  EXPECT_EQ(leased.keys().at(0).value, kOther);
}

TEST(ScriptReplies, TellWhatWasFoundAndWhatIsWritten) {
  const ScriptReply written(
      reply_of(F::kWritten | F::kFound | F::kValues,
               packed({100, 5, 0}) + with_size("") + with_size(kOther) + with_size(kValue) + kOther),
      2);
  EXPECT_EQ(written.creations(), (std::vector<std::int64_t>{5, 0}));
  EXPECT_EQ(written.found(), (std::vector<std::string_view>{"", kOther}));
  EXPECT_EQ(written.keys().at(0).value, kValue);
  EXPECT_EQ(written.keys().at(1).value, kOther);
}

TEST(ScriptReplies, OfWhatWasFoundAloneTellThat) {
  const ScriptReply found(reply_of(F::kFound, packed({100}) + with_size(kValue) + kOther), 2);
  EXPECT_EQ(found.keys().at(0).value, kValue);
  EXPECT_EQ(ScriptReply(reply_of(F::kFound, packed({100})), 1).keys().at(0).value, "");
  EXPECT_EQ(ScriptReply(reply_of(F::kFound, packed({100})), 1).keys().at(0).created_at, 0);
}

TEST(ScriptReplies, WithoutValuesTellAtMostWhenAKeyWasCreated) {
  const ScriptReply charged(reply_of(F::kCharged, packed({100, 5}) + record(7)), 1);
  EXPECT_EQ(charged.keys().at(0).value, std::nullopt);
  EXPECT_EQ(charged.keys().at(0).created_at, 5);
  EXPECT_TRUE(ScriptReply(reply_of(F::kCharged, packed({100, 5}) + record(7)), 2).keys().empty());
  const ScriptReply others(reply_of(F::kOtherKeys, packed({100, 5, 6})), 2);
  EXPECT_EQ(others.keys().at(1).value, std::nullopt);
  EXPECT_EQ(others.keys().at(1).created_at, 6);
  EXPECT_TRUE(ScriptReply(reply_of(0, packed({100})), 1).keys().empty());
  EXPECT_TRUE(ScriptReply(Reply::nil(), 1).keys().empty());
}

TEST(ScriptReplies, ThatNoScriptHasWrittenAreErrors) {
  for (const std::string& whole :
       {char(F::kGranted | F::kCharged | F::kValues) + packed({100, 3}) + with_size(kOther) + kValue,
        char(F::kWritten | F::kFound | F::kValues) + packed({100, 5, 5}) + with_size("") + with_size(kOther) +
            with_size(kValue) + kOther,
        char(F::kOtherKeys) + packed({100, 5, 5})}) {
    const std::size_t last = (whole[0] & F::kValues) != 0 ? kOther.size() : 0;
    for (std::size_t size = 0; size < whole.size() - last; ++size) {
      if ((whole[0] & F::kGranted) != 0 && size >= whole.size() - kValue.size()) break;
      EXPECT_THROW(ScriptReply(Reply::string(whole.substr(0, size)), 2), ScriptError) << size;
    }
    EXPECT_NO_THROW(ScriptReply(Reply::string(std::string(whole)), 2));
  }
  std::string huge = char(F::kFound) + packed({100}) + with_size(kOther) + kValue;
  huge.replace(9, 4, "\xff\xff\xff\xff");
  EXPECT_THROW(ScriptReply(Reply::string(std::move(huge)), 2), ScriptError);
}

}  // namespace
}  // namespace overlimit::redis
