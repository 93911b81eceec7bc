#include "overlimit/compiled_policy.hpp"

#include <map>
#include <mutex>
#include <tuple>

#include "overlimit/errors.hpp"
#include "overlimit/forks.hpp"

namespace overlimit {
namespace {

// One mutex for all policies, since it is held only while a pointer is copied. Made when the library is
// loaded.
ForkSafeMutex dates_mutex;

void append_int64(std::string& text, std::uint64_t number) {
  for (int byte = 0; byte < 8; ++byte) text += static_cast<char>(number >> (8 * byte));
}

std::vector<CompiledLimit> tagged(const std::vector<Limit>& limits) {
  std::vector<CompiledLimit> compiled;
  std::map<Tag, std::size_t> seen;
  for (const Limit& limit : limits) {
    const std::size_t ordinal = seen[limit.tag()]++;
    compiled.push_back({limit, limit.tag(ordinal), compiled.size()});
  }
  return compiled;
}

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

CompiledPolicy::CompiledPolicy(PolicyIdentity identity, const std::vector<Limit>& limits,
                               std::optional<Penalty> penalty)
    : identity_(std::move(identity)),
      limits_(tagged(limits)),
      size_(limits_.size()),
      penalty_(std::move(penalty)) {
  if (limits_.empty() || limits_.size() > kMaxLimits) {
    throw InvalidLimit("a policy must have 1 to 16 limits, not " + std::to_string(limits_.size()));
  }
  if (penalty_) penalty_->check();
  std::ranges::sort(limits_, {}, [](const CompiledLimit& each) {
    return std::tuple(each.limit.algorithm().index(), each.tag);
  });
  const auto follows_calendar = [](const CompiledLimit& each) { return each.limit.has_calendar(); };
  if (std::ranges::any_of(limits_, follows_calendar)) dates_ = std::make_shared<Dates>();
  compile();
  limits_digest_ = hash_of(packed_);
}

void CompiledPolicy::compile() {
  packed_.clear();
  tags_.clear();
  max_cells_ = 0;
  for (const CompiledLimit& each : limits_) {
    std::vector<std::int64_t> numbers = each.limit.packed();
    numbers.resize(kPackedNumbers);
    packed_ += static_cast<char>(each.limit.algorithm().index() + 1);
    append_int64(packed_, each.tag);
    for (const std::int64_t number : numbers) append_int64(packed_, std::uint64_t(number));
    tags_.push_back(each.tag);
    max_cells_ += each.limit.max_cells();
  }
  packed_ += static_cast<char>(penalty_ ? penalty_->levels.size() : 0);
  packed_ += static_cast<char>(penalty_ && penalty_->extend);
  if (!penalty_) return;
  for (const std::int64_t number : penalty_->packed()) append_int64(packed_, std::uint64_t(number));
  tags_.push_back(kLockTag);
}

bool CompiledPolicy::holds_at(Instant now) const {
  return std::ranges::all_of(limits_, [&](const CompiledLimit& each) { return each.limit.holds_at(now); });
}

std::shared_ptr<const CompiledPolicy> CompiledPolicy::latest() const {
  const std::lock_guard lock(dates_mutex);
  return dates_->latest;
}

std::shared_ptr<const CompiledPolicy> CompiledPolicy::dated(Instant now) const {
  if (std::shared_ptr<const CompiledPolicy> known = latest(); known && known->holds_at(now)) return known;
  auto policy = std::make_shared<CompiledPolicy>(*this);
  policy->dates_ = nullptr;
  for (CompiledLimit& each : policy->limits_) each.limit = each.limit.dated(now);
  policy->compile();
  std::shared_ptr<const CompiledPolicy> replaced = policy;
  const std::lock_guard lock(dates_mutex);
  dates_->latest.swap(replaced);
  return policy;
}

}  // namespace overlimit
