#include "redis/wire/told_values.hpp"

#include <cstring>
#include <span>

#include "overlimit/call.hpp"
#include "redis/wire/value.hpp"

namespace overlimit::redis {
namespace {

using protocol::Reply;

constexpr std::size_t kNumber = sizeof(std::int64_t);
constexpr std::size_t kBeforeAnswer = 1 + kNumber;
constexpr std::size_t kBeforeState = kNumber + sizeof(std::uint32_t) + kNumber;
constexpr std::size_t kStateBytes = 3 * kNumber;

std::uint32_t length_at(std::string_view bytes, std::size_t place) {
  std::uint32_t size = 0;
  std::memcpy(&size, bytes.data() + place, sizeof size);
  return size;
}

// Values, before each of which is its size, but before the last only if `is_last_sized`. False: they are
// none.
bool read_values(std::string_view& rest, bool is_last_sized, std::span<std::string_view> values) {
  for (std::string_view& value : values) {
    std::size_t size = rest.size();
    if (is_last_sized || &value != &values.back()) {
      if (rest.size() < sizeof(std::uint32_t)) return false;
      size = length_at(rest, 0);
      rest.remove_prefix(sizeof(std::uint32_t));
    }
    if (size > rest.size()) return false;
    value = rest.substr(0, size);
    rest.remove_prefix(size);
  }
  return true;
}

ToldValue told(std::string_view value) {
  return {std::string(value), value.size() < kNumber ? 0 : int64_at(value, 0)};
}

// When a value was created, and its first records without their cells. False: it has fewer.
bool append_charged(std::string& plain, std::string_view value, std::size_t limits) {
  if (value.size() < kNumber) return false;
  plain += value.substr(0, kNumber);
  for (std::size_t i = 0, at = kNumber; i < limits; ++i) {
    if (value.size() < at + kBeforeState + kStateBytes) return false;
    plain += value.substr(at, kBeforeState + kStateBytes);
    at += kBeforeState + length_at(value, at + kNumber);
    if (at > value.size()) return false;
  }
  return true;
}

// 'c' and 'l': whole values in place of what was charged.
ToldReply told_charged(Reply reply, std::size_t head, const std::vector<std::size_t>& limits) {
  const std::string_view text = reply.as_text();
  if (text.size() < head) return {std::move(reply)};
  std::string_view rest = text.substr(head);
  std::vector<std::string_view> values(limits.size());
  if (!read_values(rest, false, values)) return {std::move(reply)};
  std::string plain(text.substr(0, head));
  plain[0] = text[0] == 'c' ? 'C' : 'L';
  std::vector<ToldValue> keys;
  for (std::size_t k = 0; k < limits.size(); ++k) {
    if (!append_charged(plain, values[k], limits[k])) return {std::move(reply)};
    keys.push_back(told(values[k]));
  }
  return {Reply::string(std::move(plain)), {}, std::move(keys)};
}

// 'w': as 'W', but that the last value as found has its size before it, too; then the values as written.
ToldReply told_written(Reply reply, std::size_t count) {
  const std::string_view text = reply.as_text();
  const std::size_t head = kBeforeAnswer + kNumber * count;
  if (text.size() < head) return {std::move(reply)};
  std::string_view rest = text.substr(head);
  std::vector<std::string_view> found(count);
  std::vector<std::string_view> written(count);
  if (!read_values(rest, true, found)) return {std::move(reply)};
  const std::size_t until = text.size() - rest.size() - found.back().size() - sizeof(std::uint32_t);
  if (!read_values(rest, false, written)) return {std::move(reply)};
  std::string plain(text.substr(0, until));
  plain[0] = 'W';
  plain += found.back();
  std::vector<ToldValue> keys;
  keys.reserve(count);
  for (const std::string_view each : written) keys.push_back(told(each));
  return {Reply::string(std::move(plain)), {}, std::move(keys)};
}

ToldReply told_found(Reply reply, std::size_t count) {
  std::string_view rest = reply.as_text().substr(kBeforeAnswer);
  std::vector<std::string_view> values(count);
  std::vector<ToldValue> keys;
  if (read_values(rest, false, values)) {
    for (const std::string_view each : values) keys.push_back(told(each));
  }
  return {std::move(reply), {}, std::move(keys)};
}

// 'R': as 'F', of a command that has brought something back.
ToldReply told_restored(Reply reply, std::size_t count) {
  ToldReply told = told_found(std::move(reply), count);
  told.is_restored = true;
  return told;
}

// The value of a single key that was too long to be told.
ToldReply untold(Reply reply, std::size_t place) {
  std::vector<ToldValue> keys;
  if (reply.as_text().size() >= place + kNumber) keys.push_back({{}, int64_at(reply.as_text(), place)});
  return {std::move(reply), {}, std::move(keys)};
}

// 'N': when each key was created.
ToldReply told_of_others(Reply reply, std::size_t count) {
  std::vector<ToldValue> keys;
  if (reply.as_text().size() == kBeforeAnswer + kNumber * count) {
    for (std::size_t k = 0; k < count; ++k)
      keys.push_back({{}, int64_at(reply.as_text(), kBeforeAnswer + kNumber * k)});
  }
  return {.reply = std::move(reply), .keys = std::move(keys), .is_of_others = true};
}

ToldReply told_by_kind(Reply reply, const std::vector<std::size_t>& limits) {
  switch (reply.as_text()[0]) {
    case 'c':
      return told_charged(std::move(reply), kBeforeAnswer, limits);
    case 'l':
      return told_charged(std::move(reply), kBeforeAnswer + kNumber, limits);
    case 'w':
      return told_written(std::move(reply), limits.size());
    case 'N':
      return told_of_others(std::move(reply), limits.size());
    case 'R':
      return told_restored(std::move(reply), limits.size());
    case 'F':
      return told_found(std::move(reply), limits.size());
    case 'C':
      if (limits.size() == 1) return untold(std::move(reply), kBeforeAnswer);
      break;
    case 'L':
      if (limits.size() == 1) return untold(std::move(reply), kBeforeAnswer + kNumber);
      break;
    default:
      break;
  }
  return {std::move(reply)};
}

}  // namespace

ToldReply told_in(Reply reply, const std::vector<std::size_t>& limits) {
  if (!reply.is_string() || reply.as_text().size() < kBeforeAnswer || limits.empty())
    return {std::move(reply)};
  const Instant now(int64_at(reply.as_text(), 1));
  const std::uint64_t connection = reply.connection();
  ToldReply told = told_by_kind(std::move(reply), limits);
  told.now = now;
  told.connection = connection;
  return told;
}

}  // namespace overlimit::redis
