#include "redis/wire/script_reply.hpp"

#include "values/value.hpp"

namespace overlimit::redis {

using values::int64_at;
using values::uint32_at;
namespace {

constexpr std::size_t kWord = sizeof(std::int64_t);
constexpr std::size_t kBefore = 1 + kWord;  // flags and now

/// Reads a reply from front to back. One that ends early was not written by a script.
class Parts {
 public:
  explicit Parts(std::string_view rest) : rest_(rest) {}

  std::string_view next(std::size_t size) {
    if (size > rest_.size()) not_ours();
    const std::string_view part = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return part;
  }
  std::int64_t next_number() { return int64_at(next(kWord), 0); }
  void read_numbers(std::size_t count, std::vector<std::int64_t>& numbers) {
    for (std::size_t k = 0; k < count; ++k) numbers.push_back(next_number());
  }
  /// Before each value is its size, but not before the last of the reply.
  void read_values(std::size_t count, bool are_last, std::vector<std::string_view>& values) {
    for (std::size_t k = 0; k < count; ++k) {
      const bool is_last = are_last && k + 1 == count;
      values.push_back(is_last ? next(rest_.size()) : next(uint32_at(next(sizeof(std::uint32_t)), 0)));
    }
  }
  [[nodiscard]] std::string_view rest() const { return rest_; }

 private:
  std::string_view rest_;
};

}  // namespace

void not_ours() {
  throw ScriptError(
      "the reply is not one that the script can give; check what stands between this process and the server",
      true);
}

ScriptReply::ScriptReply(protocol::Reply reply, std::size_t keys) : reply_(std::move(reply)), keys_(keys) {
  if (is_empty()) return;
  if (!reply_.is_string() || reply_.as_text().size() < kBefore) not_ours();
  const std::string_view text = reply_.as_text();
  flags_ = static_cast<std::uint8_t>(text[0]);
  now_ = Instant(int64_at(text, 1));
  if (now_ < Instant{} || now_ >= kMaxTime) not_ours();
  Parts parts(text.substr(kBefore));
  if (has(ReplyFlags::kGranted)) {
    granted_ = parts.next_number();
    if (*granted_ < 0 || *granted_ >= kExact || !has(ReplyFlags::kCharged)) not_ours();
  }
  if (has(ReplyFlags::kWritten | ReplyFlags::kOtherKeys)) parts.read_numbers(keys, creations_);
  if (has(ReplyFlags::kFound)) parts.read_values(keys, !has(ReplyFlags::kValues), found_);
  if (has(ReplyFlags::kValues)) {
    parts.read_values(keys, true, values_);
  } else if (has(ReplyFlags::kCharged)) {
    charged_ = parts.rest();
  } else if (!has(ReplyFlags::kFound) && !parts.rest().empty()) {
    not_ours();
  }
}

// Of several keys that were charged without their values nothing is said.
std::vector<ScriptReply::Key> ScriptReply::keys() const {
  std::vector<Key> keys;
  if (has(ReplyFlags::kOtherKeys)) {
    for (const std::int64_t each : creations_) keys.push_back({{}, each});
  } else if (has(ReplyFlags::kValues) || (has(ReplyFlags::kFound) && !has(ReplyFlags::kWritten))) {
    for (const std::string_view each : has(ReplyFlags::kValues) ? values_ : found_)
      keys.push_back({each, each.size() < kWord ? 0 : int64_at(each, 0)});
  } else if (has(ReplyFlags::kCharged) && keys_ == 1 && charged_.size() >= kWord) {
    keys.push_back({{}, int64_at(charged_, 0)});
  }
  return keys;
}

}  // namespace overlimit::redis
