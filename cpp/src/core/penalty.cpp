#include "overlimit/penalty.hpp"

#include <string>

#include "overlimit/errors.hpp"

namespace overlimit {
namespace {

void require_duration(const char* argument, Duration duration, Duration least) {
  if (duration >= least && duration <= kMaxPeriod) return;
  throw InvalidLimit(std::string(argument) + " must be from " + std::to_string(least.micros()) +
                     " to 2^49 microseconds, not " + std::to_string(duration.micros()));
}

}  // namespace

void Penalty::check() const {
  if (levels.empty() || levels.size() > kMaxLevels) {
    throw InvalidLimit("a penalty must have 1 to 64 levels, not " + std::to_string(levels.size()));
  }
  for (const Duration level : levels) require_duration("levels", level, kMicrosecond);
  if (forget_after) require_duration("forget_after", *forget_after, Duration{});
}

std::vector<std::int64_t> Penalty::packed() const {
  std::vector<std::int64_t> numbers;
  for (std::size_t level = 0; level < levels.size(); ++level) {
    numbers.push_back(levels[level].micros());
    numbers.push_back(forgets(level).micros());
  }
  return numbers;
}

}  // namespace overlimit
