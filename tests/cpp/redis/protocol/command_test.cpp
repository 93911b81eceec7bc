#include <gtest/gtest.h>

#include <array>
#include <string>
#include <string_view>

#include "redis/protocol/command.hpp"

namespace overlimit::redis::protocol {
namespace {

using namespace std::string_view_literals;

TEST(Request, IsAnArrayOfBulkStrings) {
  std::string out;
  append_command(out, {"SET", "key", "a value"});
  EXPECT_EQ(out, "*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$7\r\na value\r\n");
}

TEST(Request, KeepsNulLineEndsAndEmptyArguments) {
  std::string out;
  append_command(out, {"a\0\r\n"sv, ""sv});
  EXPECT_EQ(out, "*2\r\n$4\r\na\0\r\n\r\n$0\r\n\r\n"sv);
}

TEST(Request, IsAppendedToWhatIsThere) {
  std::string out;
  append_command(out, {"PING"});
  const std::string one = out;
  append_command(out, {"PING"});
  EXPECT_EQ(out, one + one);
}

TEST(Request, TakesASpanWithLongArguments) {
  const std::string big(100'000, 'x');
  const std::array<std::string_view, 2> arguments{"ECHO", big};
  std::string out;
  append_command(out, arguments);
  EXPECT_EQ(out, "*2\r\n$4\r\nECHO\r\n$100000\r\n" + big + "\r\n");
}

TEST(Request, AllocatesOnlyWhenTheBufferIsTooSmall) {
  std::string out;
  append_command(out, {"ECHO", std::string(100, 'x')});
  const char* buffer = out.data();
  out.clear();
  append_command(out, {"ECHO", std::string(100, 'y')});
  EXPECT_EQ(out.data(), buffer);
}

}  // namespace
}  // namespace overlimit::redis::protocol
