// What a call charges, once all its pairs are judged: the rules of the roles, the same for every store.
#pragma once

#include <algorithm>
#include <span>

#include "overlimit/store.hpp"

namespace overlimit {

/// What is written of a call.
struct Settlement {
  bool passes = true;           ///< every enforced charge passes, and every meta limit has room for a refusal
  bool counts_refusal = false;  ///< the enforced ones answer `over`, and that is charged to the meta limits

  /// Whether a charge with this role and this verdict of its own is written.
  [[nodiscard]] bool charges(Role role, Status own) const {
    if (role == Role::on_refusal) return counts_refusal;
    return passes && own == Status::ok;
  }
};

/// What a charge asks of its limits: its cost, or one refusal for a meta limit.
inline Cost asked_by(const Charge& charge) { return charge.role == Role::on_refusal ? 1 : charge.cost; }

/// Whether a call that is admitted spends anything at all; one that does not writes nothing either way.
inline bool spends(std::span<const Charge> charges) {
  return std::ranges::any_of(
      charges, [](const Charge& charge) { return charge.role != Role::on_refusal && charge.cost > 0; });
}

/// Settles a call by the verdicts on its charges; `verdict_of(i)` is the worst status of charge i.
template <class VerdictOf>
Settlement settle(std::span<const Charge> charges, const VerdictOf& verdict_of) {
  Status enforced = Status::ok;
  bool meta_fits = true;
  bool has_meta = false;
  for (std::size_t i = 0; i < charges.size(); ++i) {
    const Role role = charges[i].role;
    if (role == Role::enforce) enforced = std::max(enforced, verdict_of(i));
    if (role == Role::on_refusal) {
      has_meta = true;
      meta_fits = meta_fits && verdict_of(i) == Status::ok;
    }
  }
  return {.passes = enforced == Status::ok && meta_fits,
          .counts_refusal = has_meta && meta_fits && enforced == Status::over && spends(charges)};
}

}  // namespace overlimit
