#include "redis/protocol/command.hpp"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <iterator>
#include <limits>

namespace overlimit::redis::protocol {

namespace {

constexpr std::size_t kMaxDigits = std::numeric_limits<std::size_t>::digits10 + 1;
constexpr std::size_t kMaxHeader = kMaxDigits + 3;  // the type byte, the number, CR LF

void append_header(std::string& out, char type, std::size_t number) {
  char header[kMaxHeader] = {type};
  char* end = std::to_chars(std::begin(header) + 1, std::end(header), number).ptr;
  *end++ = '\r';
  *end++ = '\n';
  out.append(std::begin(header), end);
}

std::size_t upper_bound_of_size(std::span<const std::string_view> arguments) {
  std::size_t size = kMaxHeader;
  for (const std::string_view argument : arguments) size += kMaxHeader + argument.size() + 2;
  return size;
}

/// Grows by doubling: an exact reserve per command would copy a batch once per command.
void make_room(std::string& out, std::size_t more) {
  const std::size_t needed = out.size() + more;
  if (needed > out.capacity()) out.reserve(std::max(needed, 2 * out.capacity()));
}

}  // namespace

void append_command(std::string& out, std::span<const std::string_view> arguments) {
  make_room(out, upper_bound_of_size(arguments));
  append_header(out, '*', arguments.size());
  for (const std::string_view argument : arguments) {
    append_header(out, '$', argument.size());
    out.append(argument);
    out.append("\r\n");
  }
}

void append_command(std::string& out, std::initializer_list<std::string_view> arguments) {
  append_command(out, std::span(arguments.begin(), arguments.size()));
}

}  // namespace overlimit::redis::protocol
