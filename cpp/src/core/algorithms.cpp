// Building the algorithms from their numbers: every range check of a limit is here.
#include <string>

#include "overlimit/algorithms/registry.hpp"
#include "overlimit/errors.hpp"

namespace overlimit {
namespace {

void require(bool holds, std::string_view argument, std::int64_t value, std::string_view rule) {
  if (holds) return;
  throw InvalidLimit(std::string(argument) + " must be " + std::string(rule) + ", got " +
                     std::to_string(value));
}

void require_numbers(std::span<const std::int64_t> numbers, std::size_t count, std::string_view algorithm) {
  if (numbers.size() == count) return;
  throw InvalidLimit(std::string(algorithm) + " takes " + std::to_string(count) + " numbers, got " +
                     std::to_string(numbers.size()));
}

void require_count(std::string_view argument, std::int64_t value) {
  require(value >= 0 && value < kExact, argument, value, "a whole number from 0 to 2^53 - 1");
}

void require_period(std::string_view argument, Micros value) {
  require(value > 0 && value <= kMaxPeriod, argument, value, "from 1 to 2^49 microseconds");
}

Micros default_precision(Micros period) {
  std::int64_t blocks = SlidingWindow::kDefaultBlocks;
  while (period % blocks != 0) --blocks;
  return period / blocks;
}

}  // namespace

FixedWindow FixedWindow::make(std::span<const std::int64_t> numbers) {
  require_numbers(numbers, 3, kName);
  require_count("limit", numbers[0]);
  require_period("per", numbers[1]);
  require(numbers[2] == 0 || numbers[2] == 1, "start", numbers[2], "0 (first) or 1 (epoch)");
  return {numbers[0], numbers[1], Start(numbers[2])};
}

SlidingWindow SlidingWindow::make(std::span<const std::int64_t> numbers) {
  require_numbers(numbers, 3, kName);
  require_count("limit", numbers[0]);
  const Micros period = numbers[1];
  require_period("per", period);
  const Micros precision = numbers[2] == 0 ? default_precision(period) : numbers[2];
  require(precision > 0 && precision <= period && period % precision == 0, "precision", precision,
          "a whole part of the period, in microseconds");
  require(period / precision <= kMaxBlocks, "precision", precision,
          "at least 1/4096 of the period, in microseconds");
  return {numbers[0], precision, period / precision};
}

TokenBucket TokenBucket::make(std::span<const std::int64_t> numbers) {
  require_numbers(numbers, 4, kName);
  const auto [burst, period, units, refill] = std::to_array({numbers[0], numbers[1], numbers[2], numbers[3]});
  require_count("burst", burst);
  require_period("per", period);
  require(units > 0 && units < kExact, "units", units, "from 1 to 2^53 - 1");
  require(refill >= 0 && refill < kExact, "refill", refill, "from 0 to 2^53 - 1");
  require(product(burst, units) < kExact, "burst", burst, "below 2^53 when counted in units");
  require(refill > 0 || burst == 0, "rate", refill, "above 0 when burst is");
  return {burst, period, units, refill};
}

std::int64_t TokenBucket::rescaled(const State& state) const {
  if (state.used <= 0 || state.units <= 0) return 0;
  __extension__ using Wide = unsigned __int128;
  const Wide scaled = Wide(state.used) * Wide(units);
  const Wide rounded_up = (scaled + Wide(state.units) - 1) / Wide(state.units);
  return rounded_up < Wide(kExact) ? std::int64_t(rounded_up) : kExact - 1;
}

}  // namespace overlimit
