#include "overlimit/plan.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "overlimit/errors.hpp"
#include "overlimit/forks.hpp"

namespace overlimit {
namespace {

// One mutex for all plans, since it is held only while a pointer is copied. Made when the library is loaded.
ForkSafeMutex dates_mutex;

// Every limit takes the same room in packed(); the numbers that its algorithm does not have are 0.
constexpr std::size_t kMostNumbers = 6;

void append_int64(std::string& text, std::uint64_t number) {
  for (int byte = 0; byte < 8; ++byte) text += static_cast<char>(number >> (8 * byte));
}

std::vector<PlannedLimit> tagged(const std::vector<Limit>& limits) {
  std::vector<PlannedLimit> planned;
  std::map<Tag, std::size_t> seen;
  for (const Limit& limit : limits) {
    const std::size_t ordinal = seen[limit.tag()]++;
    planned.push_back({limit, limit.tag(ordinal), planned.size()});
  }
  return planned;
}

}  // namespace

Plan::Plan(PolicyIdentity identity, const std::vector<Limit>& limits, std::optional<Penalty> penalty)
    : identity_(std::move(identity)), limits_(tagged(limits)), penalty_(std::move(penalty)) {
  if (limits_.empty() || limits_.size() > kMaxLimits) {
    throw InvalidLimit("limits: a policy has 1 to 16 limits, got " + std::to_string(limits_.size()));
  }
  if (penalty_) penalty_->check();
  std::ranges::sort(limits_, {}, [](const PlannedLimit& planned) {
    return std::tuple(planned.limit.algorithm().index(), planned.tag);
  });
  const auto follows_calendar = [](const PlannedLimit& planned) { return planned.limit.has_calendar(); };
  if (std::ranges::any_of(limits_, follows_calendar)) dates_ = std::make_shared<Dates>();
  compile();
  limits_digest_ = hash_of(packed_);
}

void Plan::compile() {
  packed_.clear();
  tags_.clear();
  max_cells_ = 0;
  for (const PlannedLimit& planned : limits_) {
    std::vector<std::int64_t> numbers = planned.limit.packed();
    numbers.resize(kMostNumbers);
    packed_ += static_cast<char>(planned.limit.algorithm().index() + 1);
    append_int64(packed_, planned.tag);
    for (const std::int64_t number : numbers) append_int64(packed_, std::uint64_t(number));
    tags_.push_back(planned.tag);
    max_cells_ += planned.limit.max_cells();
  }
  packed_ += static_cast<char>(penalty_ ? penalty_->levels.size() : 0);
  packed_ += static_cast<char>(penalty_ && penalty_->extend);
  if (!penalty_) return;
  for (const std::int64_t number : penalty_->packed()) append_int64(packed_, std::uint64_t(number));
  tags_.push_back(kLockTag);
}

bool Plan::holds_at(Micros now) const {
  return std::ranges::all_of(limits_,
                             [&](const PlannedLimit& planned) { return planned.limit.holds_at(now); });
}

std::shared_ptr<const Plan> Plan::latest() const {
  const std::lock_guard lock(dates_mutex);
  return dates_->latest;
}

std::shared_ptr<const Plan> Plan::dated(Micros now) const {
  if (std::shared_ptr<const Plan> known = latest(); known && known->holds_at(now)) return known;
  auto plan = std::make_shared<Plan>(*this);
  plan->dates_ = nullptr;
  for (PlannedLimit& planned : plan->limits_) planned.limit = planned.limit.dated(now);
  plan->compile();
  std::shared_ptr<const Plan> replaced = plan;
  const std::lock_guard lock(dates_mutex);
  dates_->latest.swap(replaced);
  return plan;
}

std::vector<std::pair<std::size_t, std::size_t>> unlike_places(const Plan& one, const Plan& other) {
  std::vector<std::pair<std::size_t, std::size_t>> places;
  for (const PlannedLimit& mine : one.limits()) {
    for (const PlannedLimit& theirs : other.limits()) {
      if (mine.tag == theirs.tag && mine.limit.packed() != theirs.limit.packed()) {
        places.emplace_back(mine.place, theirs.place);
      }
    }
  }
  return places;
}

}  // namespace overlimit
