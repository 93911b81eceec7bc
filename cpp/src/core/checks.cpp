#include "overlimit/algorithms/checks.hpp"

#include <string>

#include "overlimit/errors.hpp"

namespace overlimit::checks {

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

}  // namespace overlimit::checks
