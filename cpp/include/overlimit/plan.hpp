// A policy compiled once: its limits in canonical order, their tags, and the numbers its script reads.
// Nothing is parsed or formatted per call. Immutable, so safe to share between threads.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "overlimit/limit.hpp"

namespace overlimit {

struct PlannedLimit {
  Limit limit;
  Tag tag;
  std::size_t place;  ///< where the limit stood in the list as given
};

class Plan {
 public:
  static constexpr std::size_t kMaxLimits = 16;

  /// Throws InvalidLimit for a name that cannot stand in a key, no limit, or more than kMaxLimits.
  Plan(std::string policy, const std::vector<Limit>& limits);

  [[nodiscard]] const std::string& policy() const { return policy_; }
  /// By algorithm, then by tag: the order the limits were given in changes no record and no script.
  [[nodiscard]] const std::vector<PlannedLimit>& limits() const { return limits_; }
  [[nodiscard]] std::size_t size() const { return limits_.size(); }
  /// Two policies with the same name are one policy; this is a hash of the name.
  [[nodiscard]] std::uint64_t digest() const { return digest_; }
  /// The algorithms by name, comma-separated: scripts are made per shape.
  [[nodiscard]] const std::string& shape() const { return shape_; }
  /// Per limit its tag and its numbers, as little-endian int64: the script's view of the policy.
  [[nodiscard]] const std::string& packed() const { return packed_; }
  /// Cells that one key of this policy can hold at most, over all limits.
  [[nodiscard]] std::int64_t max_cells() const { return max_cells_; }

 private:
  std::string policy_;
  std::vector<PlannedLimit> limits_;
  std::uint64_t digest_ = 0;
  std::string shape_;
  std::string packed_;
  std::int64_t max_cells_ = 0;
};

}  // namespace overlimit
