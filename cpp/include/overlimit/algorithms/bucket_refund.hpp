// What buckets give back of a charge. A record keeps the sum of its refunds, and a receipt that sum as it was
// right after the charge, so that a refund takes nothing off that an earlier one has taken already.
#pragma once

#include <algorithm>

#include "overlimit/time.hpp"

namespace overlimit::bucket {

/// A sum of refunds that cannot be told.
inline constexpr std::int64_t kUnknown = kExact - 1;

/// The sum after one more refund.
constexpr std::int64_t with_refund(std::int64_t sum, std::int64_t amount) {
  return std::min(sum + amount, kUnknown);
}

/// What is given back of a charge, after which so much was `used`, and since which so much has drained. At
/// worst the charge drained first. At best it drained last, but nothing that was refunded since drained
/// before it.
constexpr std::int64_t given_back(std::int64_t charged, std::int64_t used, std::int64_t drained,
                                  std::int64_t sum, std::int64_t sum_then) {
  const std::int64_t at_worst = std::max<std::int64_t>(0, charged - drained);
  if (std::max(sum, sum_then) >= kUnknown) return at_worst;
  const std::int64_t refunded = std::max<std::int64_t>(0, sum - sum_then);
  return std::max(at_worst, std::min(charged, used - drained - refunded));
}

}  // namespace overlimit::bucket
