#include "overlimit/limit.hpp"

#include <utility>
#include <variant>

#include "overlimit/errors.hpp"

namespace overlimit {

namespace checks {

void require(bool holds, std::string_view argument, std::int64_t value, std::string_view rule) {
  if (holds) return;
  throw InvalidLimit(std::string(argument) + " must be " + std::string(rule) + ", not " +
                     std::to_string(value));
}

void require_numbers(std::span<const std::int64_t> numbers, std::size_t count, std::string_view algorithm) {
  if (numbers.size() == count) return;
  throw InvalidLimit(std::string(algorithm) + " takes " + std::to_string(count) + " numbers, not " +
                     std::to_string(numbers.size()));
}

void require_count(std::string_view argument, std::int64_t value) {
  require(value >= 0 && value < kExact, argument, value, "a whole number from 0 to 2^53 - 1");
}

void require_period(std::string_view argument, std::int64_t value) {
  require(value > 0 && value <= kMaxPeriod.micros(), argument, value, "from 1 to 2^49 microseconds");
}

}  // namespace checks

namespace {

template <std::size_t Index = 0>
Algorithm make_algorithm(std::string_view name, std::span<const std::int64_t> numbers) {
  if constexpr (Index < std::variant_size_v<Algorithm>) {
    using Candidate = std::variant_alternative_t<Index, Algorithm>;
    if (name == Candidate::kName) return Candidate::make(numbers);
    return make_algorithm<Index + 1>(name, numbers);
  } else {
    throw InvalidLimit("there is no algorithm named '" + std::string(name) + "'");
  }
}

bool asks_for_calendar(const Algorithm& algorithm) {
  const auto* window = std::get_if<FixedWindow>(&algorithm);
  return window != nullptr && window->start == FixedWindow::Start::calendar;
}

}  // namespace

Limit::Limit(std::string_view algorithm, std::span<const std::int64_t> numbers,
             std::optional<std::string> name, std::shared_ptr<const Calendar> calendar)
    : algorithm_(make_algorithm(algorithm, numbers)), name_(std::move(name)), calendar_(std::move(calendar)) {
  if (has_calendar() != asks_for_calendar(algorithm_)) {
    throw InvalidLimit("only start='calendar' takes a calendar, and it must have one");
  }
  if (name_ && !is_key_name(*name_)) {
    throw InvalidLimit("a limit's name must be " + std::string(kKeyNameRule) + ", not '" + *name_ + "'");
  }
}

std::string_view Limit::algorithm_name() const {
  return std::visit([](const auto& limit) { return limit.kName; }, algorithm_);
}

std::vector<std::int64_t> Limit::packed() const {
  return std::visit(
      [](const auto& limit) {
        const auto numbers = limit.packed();
        static_assert(std::tuple_size_v<decltype(limit.packed())> <= kPackedNumbers, "scripts read no more");
        return std::vector<std::int64_t>(numbers.begin(), numbers.end());
      },
      algorithm_);
}

std::int64_t Limit::max_cells() const {
  return std::visit([](const auto& limit) { return limit.max_cells(); }, algorithm_);
}

bool Limit::holds_at(Instant now) const {
  if (!has_calendar()) return true;
  const Bounds& bounds = std::get<FixedWindow>(algorithm_).bounds;
  return bounds[0] <= now && now < bounds[2];
}

Limit Limit::dated(Instant now) const {
  Limit limit = *this;
  if (has_calendar()) std::get<FixedWindow>(limit.algorithm_).bounds = calendar_->bounds_at(now);
  return limit;
}

Tag Limit::tag(std::size_t ordinal) const {
  std::string text(algorithm_name());
  std::visit(
      [&](const auto& limit) {
        for (const std::int64_t number : limit.identity()) text += ' ' + std::to_string(number);
      },
      algorithm_);
  if (calendar_) text += " calendar " + calendar_->identity;
  if (name_) text += " name " + *name_;
  if (ordinal > 0) text += " number " + std::to_string(ordinal);
  return hash_of(text);
}

// Fowler, Noll and Vo's hash, variant 1a, 64 bits.
std::uint64_t hash_of(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char character : text) {
    hash = (hash ^ static_cast<unsigned char>(character)) * 0x100000001b3;
  }
  return hash;
}

bool is_key_name(std::string_view text) {
  constexpr std::string_view kAllowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-";
  return !text.empty() && text.size() <= 64 && text.find_first_not_of(kAllowed) == std::string_view::npos;
}

}  // namespace overlimit
