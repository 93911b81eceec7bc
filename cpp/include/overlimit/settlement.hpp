// What a call charges, once all its pairs are judged: the rules of the roles, the same for every store.
#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <span>

#include "overlimit/store.hpp"

namespace overlimit {

/// What is written of a call.
struct Settlement {
  Status status = Status::ok;   ///< of the call
  bool passes = true;           ///< every enforced charge passes, and every meta limit has room for a refusal
  bool counts_refusal = false;  ///< the enforced ones answer `over`, and that is charged to the meta limits
  bool punishes = false;        ///< the call is refused, and that may set locks

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
Settlement settle(const Call& call, const VerdictOf& verdict_of) {
  const std::span<const Charge> charges = call.charges;
  std::array<Status, 3> worst{};
  std::array<bool, 3> present{};
  for (std::size_t i = 0; i < charges.size(); ++i) {
    const auto role = std::size_t(charges[i].role);
    worst[role] = std::max(worst[role], verdict_of(i));
    present[role] = true;
  }
  const auto [enforced, shadow, meta] = worst;
  const bool meta_fits = meta == Status::ok;
  Settlement settlement;
  settlement.status = !meta_fits ? meta : present[0] ? enforced : shadow;
  settlement.passes = enforced == Status::ok && meta_fits;
  const bool spending = spends(charges);
  settlement.counts_refusal = present[2] && meta_fits && enforced == Status::over && spending;
  // Who waits for its turn does no wrong by asking.
  settlement.punishes =
      !settlement.passes && enforced != Status::never && spending && call.patience == kNever;
  return settlement;
}

/// What becomes of the lock on an identifier whose charge is judged `own` by a call that is settled so;
/// nothing unless it changes. A violation sets the next level's, a hit while locked may start it anew.
inline std::optional<LockRecord> sanction(const Settlement& settlement, const Charge& charge, Status own,
                                          const std::optional<LockRecord>& lock, Micros reading) {
  const Penalty* penalty = charge.plan->penalty();
  if (penalty == nullptr || !settlement.punishes || own != settlement.status) return std::nullopt;
  if (charge.role == Role::shadow || asked_by(charge) == 0) return std::nullopt;
  if (own == Status::over) return next_lock(*penalty, lock, reading);
  if (own == Status::locked && extends(*penalty, *lock)) return extended(*penalty, *lock, reading);
  return std::nullopt;
}

}  // namespace overlimit
