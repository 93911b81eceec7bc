// The plain lines of access logs, and where their fields are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace overlimit {

/// The lines of a part of an access log, as places in it.
///
/// A plain line is an address, " - ", a user, and in brackets a time as long as 10/Oct/2025:13:55:36 +0200;
/// then a request in quotes, a status of three digits and a size or a dash. None of its texts has an escape.
struct AccessLines {
  /// Where each line ends: at its line feed.
  std::vector<std::int64_t> ends;
  /// The numbers of the plain lines, from 0.
  std::vector<std::int64_t> plain;
  /// Where the address of each plain line ends.
  std::vector<std::int64_t> ip_ends;
  /// Where the quotes of each plain line are, as many for each.
  std::vector<std::int64_t> quotes;
};

/// With a referer and an agent in quotes at the end of each line there are six quotes, else two.
constexpr std::size_t kMostQuotes = 6;

/// Find the lines of a part of a log; if `combined`, plain ones have a referer and an agent, and may go on.
AccessLines access_lines(std::string_view log, bool combined);

}  // namespace overlimit
