#include "redis/protocol/command.hpp"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <limits>

namespace overlimit::redis::protocol {

namespace {

constexpr std::size_t kMaxDigits = std::numeric_limits<std::size_t>::digits10 + 1;
constexpr std::size_t kMaxHeader = kMaxDigits + 3;  // the type byte, the number, CR LF

char* put(char* at, std::string_view bytes) { return std::copy(bytes.begin(), bytes.end(), at); }

char* put_header(char* at, char type, std::size_t number) {
  *at++ = type;
  return put(std::to_chars(at, at + kMaxDigits, number).ptr, "\r\n");
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
  const std::size_t begin = out.size();
  const std::size_t most = upper_bound_of_size(arguments);
  make_room(out, most);
  out.resize(begin + most);
  char* end = put_header(out.data() + begin, '*', arguments.size());
  for (const std::string_view argument : arguments) {
    end = put_header(end, '$', argument.size());
    end = put(put(end, argument), "\r\n");
  }
  out.resize(static_cast<std::size_t>(end - out.data()));
}

void append_command(std::string& out, std::initializer_list<std::string_view> arguments) {
  append_command(out, std::span(arguments.begin(), arguments.size()));
}

}  // namespace overlimit::redis::protocol
