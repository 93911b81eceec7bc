#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>

#include "redis/protocol/reply.hpp"

namespace overlimit::redis::protocol {
namespace {

using namespace std::string_view_literals;

static_assert(std::is_nothrow_move_constructible_v<Reply> && !std::is_copy_constructible_v<Reply>);

Reply read_one(std::string_view bytes) {
  ReplyReader reader;
  reader.feed(bytes);
  std::optional<Reply> reply = reader.next();
  EXPECT_TRUE(reply.has_value());
  EXPECT_FALSE(reader.next().has_value());
  return reply ? std::move(*reply) : Reply::nil();
}

TEST(Reply, HasTheKindAndValueThatWasSent) {
  EXPECT_EQ(read_one("+OK\r\n").as_text(), "OK");
  EXPECT_TRUE(read_one("+OK\r\n").is_status());
  EXPECT_EQ(read_one("-ERR no\r\n").as_text(), "ERR no");
  EXPECT_TRUE(read_one("-ERR no\r\n").is_error());
  EXPECT_EQ(read_one("$4\r\na\0\r\n\r\n"sv).as_text(), "a\0\r\n"sv);
  EXPECT_TRUE(read_one("$0\r\n\r\n").is_string());
  EXPECT_TRUE(read_one("$-1\r\n").is_nil());
  EXPECT_TRUE(read_one("*-1\r\n").is_nil());
  EXPECT_EQ(read_one(":-9223372036854775808\r\n").as_integer(), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(read_one(":9223372036854775807\r\n").as_integer(), std::numeric_limits<std::int64_t>::max());
}

TEST(Reply, NestsArrays) {
  const Reply reply = read_one("*3\r\n:1\r\n*2\r\n$1\r\na\r\n*0\r\n$-1\r\n");
  ASSERT_EQ(reply.as_array().size(), 3U);
  EXPECT_EQ(reply.as_array()[0].as_integer(), 1);
  EXPECT_EQ(reply.as_array()[1].as_array()[0].as_text(), "a");
  EXPECT_TRUE(reply.as_array()[1].as_array()[1].as_array().empty());
  EXPECT_TRUE(reply.as_array()[2].is_nil());
}

TEST(Reply, RefusesToBeReadAsAnotherKind) {
  const Reply reply = Reply::integer(1);
  EXPECT_THROW((void)reply.as_text(), std::bad_variant_access);
  EXPECT_THROW((void)reply.as_array(), std::bad_variant_access);
  EXPECT_THROW((void)Reply::nil().as_integer(), std::bad_variant_access);
}

TEST(ReplyReader, WaitsForTheLastByte) {
  constexpr std::string_view kBytes = "*2\r\n$5\r\nhello\r\n:42\r\n";
  ReplyReader reader;
  for (const char& byte : kBytes.substr(0, kBytes.size() - 1)) {
    reader.feed({&byte, 1});
    ASSERT_FALSE(reader.next().has_value());
  }
  reader.feed("\n");
  const std::optional<Reply> reply = reader.next();
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(reply->as_array()[0].as_text(), "hello");
  EXPECT_EQ(reply->as_array()[1].as_integer(), 42);
}

TEST(ReplyReader, SplitsWhatCameTogether) {
  ReplyReader reader;
  reader.feed(":1\r\n:2\r\n:3");
  EXPECT_EQ(reader.next().value().as_integer(), 1);
  EXPECT_EQ(reader.next().value().as_integer(), 2);
  EXPECT_FALSE(reader.next().has_value());
  reader.feed("\r\n");
  EXPECT_EQ(reader.next().value().as_integer(), 3);
}

void read_all(std::string_view bytes) {
  ReplyReader reader;
  reader.feed(bytes);
  while (reader.next()) {
  }
}

TEST(ReplyReader, ThrowsOnWhatIsNoReply) {
  EXPECT_THROW(read_all("HTTP/1.1 400 Bad Request\r\n\r\n"), MalformedReply);
  EXPECT_THROW(read_all(":12x\r\n"), MalformedReply);
  EXPECT_THROW(read_all("*-2\r\n"), MalformedReply);
  EXPECT_THROW(read_all("$-5\r\n"), MalformedReply);
}

TEST(ReplyReader, ThrowsOnRepliesOfAnotherProtocol) {
  EXPECT_THROW(read_all("%1\r\n+a\r\n+b\r\n"), MalformedReply);
  EXPECT_THROW(read_all("#t\r\n"), MalformedReply);
  EXPECT_THROW(read_all(",1.5\r\n"), MalformedReply);
}

TEST(ReplyReader, LimitsTheDepthOfAReply) {
  std::string nested;
  for (std::size_t depth = 0; depth < kMaxReplyDepth; ++depth) nested += "*1\r\n";
  EXPECT_NO_THROW(read_all(nested + ":1\r\n"));
  nested += "*1\r\n";
  EXPECT_THROW(read_all(nested + ":1\r\n"), MalformedReply);
}

TEST(ReplyReader, LimitsTheElementsOfOneReplyButNotOfMany) {
  const std::string most = "*" + std::to_string(kMaxReplyElements) + "\r\n";
  EXPECT_NO_THROW(read_all(most));
  EXPECT_THROW(read_all("*" + std::to_string(kMaxReplyElements + 1) + "\r\n"), MalformedReply);
  EXPECT_THROW(read_all("*2147483647\r\n"), MalformedReply);
  EXPECT_THROW(read_all("*2\r\n" + most), MalformedReply);
  std::string all_nil = "*1000\r\n";
  for (int i = 0; i < 1000; ++i) all_nil += "$-1\r\n";
  ReplyReader reader;
  for (std::size_t i = 0; i <= kMaxReplyElements / 1000; ++i) {
    reader.feed(all_nil);
    ASSERT_TRUE(reader.next().has_value());
  }
}

TEST(ReplyReader, LimitsTheBytesOfOneReply) {
  ReplyReader reader;
  const std::string chunk(std::size_t{1} << 20U, 'x');
  reader.feed("$1000000000\r\n");
  const auto feed_beyond_the_limit = [&] {
    for (std::size_t fed = 0; fed <= kMaxReplyBytes; fed += chunk.size()) {
      reader.feed(chunk);
      EXPECT_FALSE(reader.next().has_value());
    }
  };
  EXPECT_THROW(feed_beyond_the_limit(), MalformedReply);
}

}  // namespace
}  // namespace overlimit::redis::protocol
