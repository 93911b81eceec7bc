#include "redis/leases/demand.hpp"

#include <algorithm>

namespace overlimit::redis {
namespace {

/// Commands that follow each other faster tell nothing of a rate.
constexpr Duration kShortest{100};
/// The rate since the last command may be that of a short while: no more is wanted than so many times what
/// was spent since.
constexpr Cost kMostTimesSpent = 16;

}  // namespace

Cost Demand::wanted(Cost cost, Cost spent_of_lease, Duration term, Duration now, bool has_holds) const {
  if (now < refilled_by) return 0;
  const Cost spent = sum(asked, spent_of_lease);
  const Duration since = max(kShortest, now - asked_at);
  Cost wanted = multiply_divide(spent, term.micros(), since.micros(), 0);
  wanted = std::min(wanted, product(kMostTimesSpent, spent));
  if (has_holds) wanted = std::min(wanted, std::max<Cost>(sum(in_term, spent), before));
  return wanted < 2 * cost ? 0 : std::min(wanted, kExact / 8 - cost);
}

void Demand::note_command(Cost cost, Duration at, Duration cold) {
  const Duration term = cold - at;
  in_term = sum(in_term, asked);
  if (at - term_began >= term) {
    before = at - term_began < 2 * term ? in_term : SharedNumber<Cost>(0);
    in_term = 0;
    term_began = at;
  }
  asked_at = at;
  cold_from = cold;
  asked = cost;
}

// A costly call that was refused says nothing of cheaper ones, nor of those under other limits.
bool Demand::waits_to_ask(const Charge& charge) const {
  return refused_cost > 0 && charge.cost >= refused_cost && charge.policy->limits_digest() == refused_limits;
}

// Who was refused waits before it asks until it is granted something. If it were until it is granted all that
// it wanted, up to a tenth of what the limit admits would be left.
void Demand::note_refusal(const Charge& charge, bool is_refused) {
  if (!is_refused) {
    refused_cost = 0;
    return;
  }
  if (!waits_to_ask(charge)) refused_cost = charge.cost;
  refused_limits = charge.policy->limits_digest();
}

}  // namespace overlimit::redis
