#include "redis/leases/pending_releases.hpp"

#include <algorithm>
#include <mutex>

namespace overlimit::redis {
namespace {

// Whoever hears of it may take a lock that comes before that of the releases.
void tell(std::string_view policy, Units what, Cost units) {
  if (const CountUnits count = count_units.load()) count(policy, what, std::uint64_t(units));
}

}  // namespace

void PendingReleases::add(std::shared_ptr<Lease> lease, Duration at) {
  const std::lock_guard lock(mutex_);
  const auto known = std::ranges::find(leases_, lease, &decltype(leases_)::value_type::second);
  if (known != leases_.end()) {
    known->first = at;
  } else {
    leases_.emplace_back(at, std::move(lease));
  }
  next_.store(std::min(next_.load(), at.micros()));
}

void PendingReleases::add(ReleasedUnits taken) {
  if (taken.lease == nullptr || taken.units == 0) return;
  const std::lock_guard lock(mutex_);
  taken_.push_back(std::move(taken));
  next_.store(0);
}

void PendingReleases::forget(const std::function<bool(const LeaseSubject&)>& is_meant) {
  const std::lock_guard lock(mutex_);
  std::erase_if(leases_, [&](const auto& each) {
    if (!is_meant(each.second->subject())) return false;
    (void)each.second->take_rest();
    note_end(*each.second, 0);
    return true;
  });
  std::erase_if(taken_, [&](const ReleasedUnits& each) { return is_meant(each.lease->subject()); });
}

void PendingReleases::count(std::string_view policy, Units what, Cost units) {
  {
    const auto count = std::uint64_t(units);
    const std::lock_guard lock(mutex_);
    LeaseCounts& counts = counts_[std::string(policy)];
    if (what == Units::granted) counts.granted += count;
    if (what == Units::returned) counts.returned += count;
    if (what == Units::lapsed) counts.lapsed += count;
  }
  tell(policy, what, units);
}

std::vector<ReleasedUnits> PendingReleases::take_due(Duration now) {
  Spent spent;
  std::vector<ReleasedUnits> due = take_due(now, spent);
  for (const auto& [policy, units] : spent) tell(policy, Units::spent, units);
  return due;
}

std::vector<ReleasedUnits> PendingReleases::take_due(Duration now, Spent& spent) {
  const std::lock_guard lock(mutex_);
  std::vector<ReleasedUnits> ended = std::exchange(taken_, {});
  Duration next{INT64_MAX};
  std::erase_if(leases_, [&](auto& each) {
    auto& [at, lease] = each;
    if (at > now) {
      next = min(next, at);
      return false;
    }
    const Cost rest = lease->take_rest();
    note_end(*lease, rest);
    if (rest > 0) ended.push_back({lease, rest});
    return true;
  });
  next_.store(next.micros());
  spent = std::exchange(spent_, {});
  return ended;
}

// What is forgotten is no loss either.
void PendingReleases::note_end(const Lease& lease, Cost rest) {
  if (!lease.is_shared()) spent_.emplace_back(lease.subject().policy, lease.terms().granted - rest);
}

LeaseCounts PendingReleases::counted(const std::string& policy) {
  const std::lock_guard lock(mutex_);
  LeaseCounts counts;
  if (const auto known = counts_.find(policy); known != counts_.end()) counts = known->second;
  const auto count = [&](const Lease& lease, Cost units) {
    if (lease.subject().policy == policy) counts.held += std::uint64_t(units);
  };
  for (const auto& [at, lease] : leases_) count(*lease, lease->left());
  for (const auto& [lease, units] : taken_) count(*lease, units);
  return counts;
}

}  // namespace overlimit::redis
