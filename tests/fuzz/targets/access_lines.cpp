// A part of an access log: each place lies in its line, in order, and lines are found as they are split.
#include "overlimit/access_lines.hpp"

#include <algorithm>

#include "target.hpp"

namespace overlimit::fuzz {
namespace {

void check_lines(std::string_view log, bool combined) {
  const AccessLines found = access_lines(log, combined);
  const std::size_t count = combined ? kMostQuotes : 2;
  const auto feeds = std::size_t(std::ranges::count(log, '\n'));
  check(found.ends.size() == feeds + (!log.empty() && log.back() != '\n'), "a line ends at each line feed");
  check(found.ip_ends.size() == found.plain.size() && found.quotes.size() == count * found.plain.size(),
        "each plain line has its places");
  for (std::size_t k = 0; k < found.plain.size(); ++k) {
    const auto line = std::size_t(found.plain[k]);
    check(line < found.ends.size() && (k == 0 || found.plain[k - 1] < found.plain[k]), "lines are in order");
    std::int64_t last = line == 0 ? 0 : found.ends[line - 1] + 1;
    check(last < found.ip_ends[k], "an address is not empty");
    last = found.ip_ends[k];
    for (std::size_t quote = 0; quote < count; ++quote) {
      const std::int64_t place = found.quotes[count * k + quote];
      check(last < place && place < found.ends[line], "quotes are in order");
      check(log[std::size_t(place)] == '"', "and are quotes");
      last = place;
    }
  }
}

void read_log(std::string_view log) {
  check_lines(log, true);
  check_lines(log, false);
}

std::vector<std::string> lines() {
  const std::string common = R"(::1 - - [10/Oct/2025:13:55:36 +0200] "GET / HTTP/1.1" 200 12)";
  return {common + "\n" + common + " \"-\" \"a\"\n", common + " \"\" \"\\\"\"", "\n\n" + common + "\n"};
}

const Registration kAccessLines("access_lines", {read_log, lines});

}  // namespace
}  // namespace overlimit::fuzz
