// Which lines of an access log are plain, and where their fields are.
#include "overlimit/access_lines.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace overlimit::testing {
namespace {

const std::string kCommon = R"(192.0.2.1 - ann [10/Oct/2025:13:55:36 +0200] "GET / HTTP/1.1" 200 12)";
const std::string kCombined = kCommon + R"( "-" "agent")";

std::string with(std::string line, const std::string& part, const std::string& other) {
  return line.replace(line.find(part), part.size(), other);
}

bool is_plain(const std::string& line, bool combined) {
  return access_lines(line + "\n", combined).plain.size() == 1;
}

std::string text(const std::string& log, std::int64_t begin, std::int64_t end) {
  return log.substr(std::size_t(begin), std::size_t(end - begin));
}

TEST(AccessLines, AreFoundWithTheirFields) {
  const std::string log = kCombined + "\n\nno line\n" + kCombined + " more\n";
  const AccessLines found = access_lines(log, true);
  ASSERT_EQ(found.ends.size(), 4);
  EXPECT_EQ(found.ends[0], std::int64_t(kCombined.size()));
  EXPECT_EQ(found.ends[3], std::int64_t(log.size()) - 1);
  ASSERT_EQ(found.plain, (std::vector<std::int64_t>{0, 3}));
  const std::int64_t start = found.ends[2] + 1;
  EXPECT_EQ(text(log, start, found.ip_ends[1]), "192.0.2.1");
  ASSERT_EQ(found.quotes.size(), 2 * kMostQuotes);
  EXPECT_EQ(text(log, found.quotes[6] + 1, found.quotes[7]), "GET / HTTP/1.1");
  EXPECT_EQ(text(log, found.quotes[10] + 1, found.quotes[11]), "agent");
}

TEST(AccessLines, ArePlainInOneForm) {
  EXPECT_TRUE(is_plain(kCommon, false));
  EXPECT_TRUE(is_plain(with(kCommon, "200 12", "200 -"), false));
  EXPECT_FALSE(is_plain(kCommon, true));
  EXPECT_FALSE(is_plain(kCombined, false));
  for (const auto& [part, other] : std::vector<std::pair<std::string, std::string>>{
           {"192.0.2.1 ", ""},      {"192.0.2.1", "192.0.2.1, 192.0.2.2"},
           {" - ann", " id ann"},   {" - ann", ""},
           {"ann", "a b"},          {"[10", "10"},
           {"+0200]", "+0200"},     {"\"GET", "GET"},
           {"GET /", "GET /\\x"},   {"200 12", "20 12"},
           {"200 12", "2000 12"},   {"200 12", "2x0 12"},
           {"200 12", "200"},       {"200 12", "200 1x"},
           {"200 12", "200 -1"},    {"200 12", "200 1234567890123456"},
           {"12 \"-\"", "12 -"},    {"\"-\" \"", "\"-\"\""},
           {"agent\"", "agent\"x"},
       }) {
    EXPECT_FALSE(is_plain(with(kCombined, part, other), true)) << with(kCombined, part, other);
  }
}

TEST(AccessLines, MayEndAnywhere) {
  for (std::size_t size = 0; size <= kCombined.size(); ++size) {
    const std::string part = kCombined.substr(0, size);
    EXPECT_EQ(access_lines(part, true).ends.size(), size ? 1 : 0);
    EXPECT_EQ(is_plain(part, true), part == kCombined);
    EXPECT_EQ(access_lines(part, true).plain.size(), part == kCombined);
  }
}

}  // namespace
}  // namespace overlimit::testing
