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
  require(numbers[2] >= 0 && numbers[2] <= 2, "start", numbers[2], "0 (first), 1 (epoch) or 2 (calendar)");
  const Start start{static_cast<std::uint8_t>(numbers[2])};
  if (start == Start::calendar) {
    require(numbers[1] == 0, "per", numbers[1],
            "0 for a calendar's window, which has its periods from there");
  } else {
    require_period("per", numbers[1]);
  }
  return {numbers[0], numbers[1], start};
}

std::vector<std::int64_t> FixedWindow::packed() const {
  std::vector<std::int64_t> numbers{limit, period, std::int64_t(start)};
  if (start == Start::calendar) numbers.insert(numbers.end(), bounds.begin(), bounds.end());
  return numbers;
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

SlidingLog SlidingLog::make(std::span<const std::int64_t> numbers) {
  require_numbers(numbers, 2, kName);
  require(numbers[0] >= 0 && numbers[0] <= kMaxLimit, "limit", numbers[0], "from 0 to 10,000");
  require_period("per", numbers[1]);
  return {numbers[0], numbers[1]};
}

SlidingWindowCounter SlidingWindowCounter::make(std::span<const std::int64_t> numbers) {
  require_numbers(numbers, 2, kName);
  require_count("limit", numbers[0]);
  require_period("per", numbers[1]);
  return {numbers[0], numbers[1]};
}

LeakyBucket LeakyBucket::make(std::span<const std::int64_t> numbers) {
  require_numbers(numbers, 3, kName);
  const auto [rate, period, capacity] = std::to_array({numbers[0], numbers[1], numbers[2]});
  require_count("rate", rate);
  require_period("per", period);
  require_count("capacity", capacity);
  require(rate + capacity < kExact, "capacity", capacity, "below 2^53 together with the rate");
  require(rate > 0 || capacity == 0, "rate", rate, "above 0 when capacity is");
  return {rate, period, capacity};
}

TokenBucket TokenBucket::make(std::span<const std::int64_t> numbers) {
  require_numbers(numbers, 7, kName);
  const auto [burst, period, units, refill, every, start, debt] =
      std::to_array({numbers[0], numbers[1], numbers[2], numbers[3], numbers[4], numbers[5], numbers[6]});
  require_count("burst", burst);
  require_period("per", period);
  require(units > 0 && units < kExact, "units", units, "from 1 to 2^53 - 1");
  require(refill >= 0 && refill < kExact, "refill", refill, "from 0 to 2^53 - 1");
  require(every == 1 || every == period, "every", every, "1 (continuous) or the period (interval)");
  require(start == 0 || (start == 1 && every == period), "start", start,
          "0 (first), or 1 (epoch) for intervals");
  require_count("debt", debt);
  require(burst + debt < kExact && product(burst + debt, units) < kExact, debt > 0 ? "debt" : "burst",
          debt > 0 ? debt : burst, "such that burst + debt is below 2^53 when counted in units");
  require(refill > 0 || burst + debt == 0, "rate", refill, "above 0 when burst or debt is");
  return {burst, period, units, refill, every, Start(start), debt};
}

namespace {

__extension__ using Wide = unsigned __int128;

/// (amount * units + rounding) / per, saturating below 2^53.
std::int64_t scaled(std::int64_t amount, std::int64_t units, std::int64_t per, std::int64_t rounding) {
  if (amount <= 0 || per <= 0) return 0;
  const Wide result = (Wide(amount) * Wide(units) + Wide(rounding)) / Wide(per);
  return result < Wide(kExact) ? std::int64_t(result) : kExact - 1;
}

}  // namespace

std::int64_t TokenBucket::rescaled(const State& state) const {
  return scaled(state.used, units, state.units, state.units - 1);
}

std::int64_t TokenBucket::counted_in(const State& state, std::int64_t amount) const {
  return state.units == units ? amount : scaled(amount, state.units, units, 0);
}

}  // namespace overlimit
