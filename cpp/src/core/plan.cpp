#include "overlimit/plan.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "overlimit/errors.hpp"

namespace overlimit {
namespace {

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

Plan::Plan(std::string policy, const std::vector<Limit>& limits)
    : policy_(std::move(policy)), limits_(tagged(limits)) {
  if (!is_key_name(policy_)) {
    throw InvalidLimit("a policy's name must match [A-Za-z0-9_.-]{1,64}, got '" + policy_ + "'");
  }
  if (limits_.empty() || limits_.size() > kMaxLimits) {
    throw InvalidLimit("limits: a policy has 1 to 16 limits, got " + std::to_string(limits_.size()));
  }
  std::ranges::sort(limits_, {}, [](const PlannedLimit& planned) {
    return std::tuple(planned.limit.algorithm().index(), planned.tag);
  });
  digest_ = hash_of(policy_);
  for (const PlannedLimit& planned : limits_) {
    if (!shape_.empty()) shape_ += ',';
    shape_ += planned.limit.algorithm_name();
    append_int64(packed_, planned.tag);
    for (const std::int64_t number : planned.limit.packed()) append_int64(packed_, std::uint64_t(number));
    max_cells_ += planned.limit.max_cells();
  }
}

}  // namespace overlimit
