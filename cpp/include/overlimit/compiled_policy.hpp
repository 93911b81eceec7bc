// A policy compiled once, so that nothing is parsed or formatted per call. Immutable: what changes with the
// calendar is another policy.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "overlimit/limit.hpp"
#include "overlimit/penalty.hpp"
#include "overlimit/policy_identity.hpp"

namespace overlimit {

struct CompiledLimit {
  Limit limit;
  Tag tag;
  std::size_t place;  ///< where the limit stood in the list as given
};

class CompiledPolicy {
 public:
  static constexpr std::size_t kMaxLimits = 16;

  /// Throws InvalidLimit for no limit, more than kMaxLimits, or an invalid penalty.
  CompiledPolicy(PolicyIdentity identity, const std::vector<Limit>& limits,
                 std::optional<Penalty> penalty = std::nullopt);
  /// For a policy with this name. Throws InvalidLimit also for a name that is not kKeyNameRule.
  CompiledPolicy(std::string name, const std::vector<Limit>& limits,
                 std::optional<Penalty> penalty = std::nullopt)
      : CompiledPolicy(PolicyIdentity(std::move(name)), limits, std::move(penalty)) {}
  /// Policies with the same identity share their state.
  [[nodiscard]] const PolicyIdentity& identity() const { return identity_; }
  [[nodiscard]] const std::string& name() const { return identity_.name(); }
  /// By algorithm, then by tag: the order the limits were given in changes no record and no script.
  [[nodiscard]] const std::vector<CompiledLimit>& limits() const { return limits_; }
  [[nodiscard]] std::size_t size() const { return size_; }
  /// The memory store tells policies apart by it.
  [[nodiscard]] std::uint64_t digest() const { return identity_.digest(); }
  /// A hash of its limits and its penalty with all their numbers, without the name and the calendar's bounds.
  [[nodiscard]] std::uint64_t limits_digest() const { return limits_digest_; }
  [[nodiscard]] const Penalty* penalty() const { return penalty_ ? &*penalty_ : nullptr; }
  /// The records a key of this policy has, in order: those of its limits, then that of its penalty.
  [[nodiscard]] std::span<const Tag> tags() const { return tags_; }
  /// What a script reads: the limits and behind them the penalty (lua/README.md).
  [[nodiscard]] const std::string& packed() const { return packed_; }
  /// Cells that one key of this policy can hold at most, over all limits.
  [[nodiscard]] std::int64_t max_cells() const { return max_cells_; }
  /// Whether its numbers change with the calendar. Such a policy decides nothing itself; dated() ones do.
  [[nodiscard]] bool has_calendar() const { return dates_ != nullptr; }
  [[nodiscard]] bool holds_at(Instant now) const;
  /// The policy that decides at this instant, the same one while its numbers hold. May ask the calendar, so
  /// no lock that others need may be held.
  [[nodiscard]] std::shared_ptr<const CompiledPolicy> dated(Instant now) const;
  /// The one that dated() made last, or else that of now().
  template <class Now>
  [[nodiscard]] std::shared_ptr<const CompiledPolicy> latest_or_at(const Now& now) const {
    std::shared_ptr<const CompiledPolicy> policy = latest();
    return policy ? policy : dated(now());
  }

 private:
  /// The last one that `dated` has made.
  struct Dates {
    std::shared_ptr<const CompiledPolicy> latest;  // guarded by the one mutex of all of them
  };

  [[nodiscard]] std::shared_ptr<const CompiledPolicy> latest() const;
  void compile();

  PolicyIdentity identity_;
  std::vector<CompiledLimit> limits_;
  std::size_t size_;  // of the limits
  std::optional<Penalty> penalty_;
  std::vector<Tag> tags_;
  std::shared_ptr<Dates> dates_;
  std::uint64_t limits_digest_ = 0;
  std::string packed_;
  std::int64_t max_cells_ = 0;
};

}  // namespace overlimit
