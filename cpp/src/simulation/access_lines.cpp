#include "overlimit/access_lines.hpp"

#include <algorithm>
#include <array>

namespace overlimit {

namespace {

constexpr std::string_view kAfterAddress = " - ";
constexpr std::size_t kTime = std::string_view("[10/Oct/2025:13:55:36 +0200]").size();
constexpr std::size_t kMostDigits = 15;
constexpr std::size_t kLikelyLength = 160;
constexpr std::size_t kNone = std::string_view::npos;

bool is_digit(char letter) { return letter >= '0' && letter <= '9'; }

/// A line, of which each step looks at what follows the part that the one before has looked at.
class Line {
 public:
  Line(std::string_view text, bool combined) : text_(text), count_(combined ? kMostQuotes : 2) {}

  /// Tell whether it is plain; then the members below are known.
  bool is_plain() { return find_quotes() && has_names() && has_numbers() && has_agent(); }

  [[nodiscard]] std::size_t ip_end() const { return ip_end_; }
  [[nodiscard]] std::size_t count() const { return count_; }
  [[nodiscard]] std::size_t quote(std::size_t k) const { return quotes_[k]; }

 private:
  bool find_quotes() {
    std::size_t from = 0;
    for (std::size_t k = 0; k < count_; ++k) {
      quotes_[k] = text_.find('"', from);
      if (quotes_[k] == kNone) return false;
      from = quotes_[k] + 1;
    }
    return count_ == kMostQuotes || text_.find('"', from) == kNone;
  }

  /// Look at the address, the user and the time, which stand before the request.
  bool has_names() {
    if (quotes_[0] < kTime + 2) return false;
    const std::size_t end = quotes_[0] - kTime - 2;
    const std::string_view names = text_.substr(0, end);
    if (text_[end] != ' ' || text_[end + 1] != '[' || text_[end + kTime] != ']' ||
        text_[end + kTime + 1] != ' ')
      return false;
    ip_end_ = names.find(' ');
    if (ip_end_ == kNone || ip_end_ == 0 || names.substr(ip_end_, kAfterAddress.size()) != kAfterAddress)
      return false;
    const std::string_view user = names.substr(ip_end_ + kAfterAddress.size());
    return !user.empty() && user.find(' ') == kNone;
  }

  /// Look at the status and the size, which follow the request.
  [[nodiscard]] bool has_numbers() const {
    const std::size_t end = count_ == kMostQuotes ? quotes_[2] - 1 : text_.size();
    const std::size_t begin = quotes_[1] + std::string_view("\" 200 ").size();
    if (begin >= end || end - begin > kMostDigits) return false;
    const std::string_view status = text_.substr(quotes_[1] + 1, begin - quotes_[1] - 1);
    if (status.front() != ' ' || status.back() != ' ' || !std::ranges::all_of(status.substr(1, 3), is_digit))
      return false;
    const std::string_view size = text_.substr(begin, end - begin);
    return size == "-" || std::ranges::all_of(size, is_digit);
  }

  [[nodiscard]] bool has_agent() const {
    if (count_ != kMostQuotes) return true;
    const std::size_t after = quotes_[5] + 1;
    return text_[quotes_[2] - 1] == ' ' && quotes_[4] == quotes_[3] + 2 && text_[quotes_[3] + 1] == ' ' &&
           (after == text_.size() || text_[after] == ' ');
  }

  std::string_view text_;
  std::size_t count_;
  std::size_t ip_end_ = 0;
  std::array<std::size_t, kMostQuotes> quotes_{};
};

}  // namespace

AccessLines access_lines(std::string_view log, bool combined) {
  AccessLines found;
  const std::size_t likely = log.size() / kLikelyLength;
  found.ends.reserve(likely);
  found.plain.reserve(likely);
  found.ip_ends.reserve(likely);
  found.quotes.reserve(likely * (combined ? kMostQuotes : 2));
  const bool has_escapes = log.find('\\') != kNone;
  for (std::size_t start = 0; start < log.size();) {
    const std::size_t end = std::min(log.find('\n', start), log.size());
    const std::string_view text = log.substr(start, end - start);
    Line line(text, combined);
    if (!(has_escapes && text.find('\\') != kNone) && line.is_plain()) {
      found.plain.push_back(static_cast<std::int64_t>(found.ends.size()));
      found.ip_ends.push_back(static_cast<std::int64_t>(start + line.ip_end()));
      for (std::size_t k = 0; k < line.count(); ++k) {
        found.quotes.push_back(static_cast<std::int64_t>(start + line.quote(k)));
      }
    }
    found.ends.push_back(static_cast<std::int64_t>(end));
    start = end + 1;
  }
  return found;
}

}  // namespace overlimit
