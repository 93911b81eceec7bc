// What is to be released of leases, and what has become of the units.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "overlimit/forks.hpp"
#include "overlimit/non_copyable.hpp"
#include "overlimit/redis_leases.hpp"
#include "overlimit/store.hpp"
#include "redis/leases/lease.hpp"

namespace overlimit::redis {

/// Of one keyspace. Thread-safe.
class PendingReleases : NonCopyable {
 public:
  /// Whether anything may be due at this boot time.
  [[nodiscard]] bool may_be_due(Duration now) const {
    return next_.load(std::memory_order_relaxed) <= now.micros();
  }
  /// Has what is left of a lease released from this boot time on.
  void add(std::shared_ptr<Lease> lease, Duration at);
  /// Has units released that nobody spends any more. What is left of a lease of which nothing is known, as
  /// a process died that was replacing it, is lost.
  void add(ReleasedUnits taken);
  void add(std::vector<ReleasedUnits> taken) {
    for (ReleasedUnits& each : taken) add(std::move(each));
  }
  /// Refunds what was taken of a lease and is not spent: to it, to be spent by somebody else, or else it is
  /// released.
  void refund(const std::shared_ptr<Lease>& lease, Cost units) {
    if (!lease->refund(units)) add({lease, units});
  }
  /// Has what is left of a lease that is spent no more released at once. Of one that others spend, whoever
  /// takes it from the file releases the rest. nullptr: there is none.
  void add_rest(std::shared_ptr<Lease> lease) {
    if (lease != nullptr && !lease->is_shared()) add(std::move(lease), {});
  }
  /// Forgets what is left of some. Of those that have ended before, too: somebody may have found one while it
  /// lived.
  void forget(const std::function<bool(const LeaseSubject&)>& is_meant);
  /// Takes what is left of all leases whose time has come.
  [[nodiscard]] std::vector<ReleasedUnits> take_due(Duration now);
  /// Counts units of a policy that were charged early, were released, or were lost.
  void count(std::string_view policy, Units what, Cost units);
  /// What has become of units of a policy, and what is held of it.
  [[nodiscard]] LeaseCounts counted(const std::string& policy);
  /// Whether servers knew the script for refunds when they were asked last.
  [[nodiscard]] bool knows_script() const { return knows_script_.load(std::memory_order_relaxed); }
  void note_knows_script(bool knows) { knows_script_.store(knows, std::memory_order_relaxed); }

 private:
  /// Units of the leases of this process alone that have ended, by policy.
  using Spent = std::vector<std::pair<std::string, Cost>>;

  std::vector<ReleasedUnits> take_due(Duration now, Spent& spent);
  void note_end(const Lease& lease, Cost rest);

  std::atomic<std::int64_t> next_{INT64_MAX};  // boot time in microseconds
  std::atomic<bool> knows_script_{false};
  ForkSafeMutex mutex_;  // guards all below
  std::vector<std::pair<Duration, std::shared_ptr<Lease>>> leases_;
  std::vector<ReleasedUnits> taken_;
  Spent spent_;
  std::unordered_map<std::string, LeaseCounts> counts_;  // by policy
};

}  // namespace overlimit::redis
