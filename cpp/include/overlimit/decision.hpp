// Folding the rows of a call into its answer: one function, the same for every store.
#pragma once

#include <span>

#include "overlimit/store.hpp"

namespace overlimit {

struct Decision {
  Status status = Status::ok;
  std::int64_t remaining = 0;   ///< the smallest over all pairs
  Duration retry_after{};       ///< the largest over all that refuse; kNever for never
  Duration reset_after{};       ///< of the binding pair
  Duration delay{};             ///< the largest over all; 0 when refused
  std::size_t binding_row = 0;  ///< the row that decides
};

Decision fold_many(std::span<const Charge> charges, const Rows& rows);

/// Folds the rows. Of equal rows the first binds, in the order in which the limits were given. Rows of
/// Role::always wait until the same call would pass once more; for nothing, if all of them pass now.
inline void fold_into(Decision& answer, std::span<const Charge> charges, const Rows& rows) {
  const bool is_lone = charges.size() == 1 && charges[0].policy->size() == 1;
  if (!is_lone || charges[0].role >= Role::on_refusal) {
    answer = fold_many(charges, rows);
    return;
  }
  answer.status = rows.status[0];
  answer.remaining = rows.remaining[0];
  answer.retry_after = rows.retry_after[0];
  answer.reset_after = rows.reset_after[0];
  answer.delay = answer.status == Status::ok ? rows.delay[0] : Duration{};
  answer.binding_row = 0;
}
inline Decision fold(std::span<const Charge> charges, const Rows& rows) {
  Decision answer;
  fold_into(answer, charges, rows);
  return answer;
}

}  // namespace overlimit
