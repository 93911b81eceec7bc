// A call: its charges by role, the policies that decide them at an instant, and what the call writes once all
// its pairs are judged. The same for every store.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "overlimit/algorithms/step.hpp"
#include "overlimit/compiled_policy.hpp"
#include "overlimit/non_copyable.hpp"

namespace overlimit {

/// How a charge takes part in its call (docs/semantics.md: roles).
///   enforce     checked; charged when every enforced charge of the call passes
///   shadow      checked; charged when the enforced ones pass and it passes itself; never refuses
///   on_refusal  charged 1 when the enforced ones answer `over`; refuses the call once that no longer fits
///   always      checked; charged when the enforced ones pass, whatever its own verdict; never refuses
enum class Role : std::uint8_t { enforce, shadow, on_refusal, always };
inline constexpr std::size_t kRoles = 4;

/// One policy and one identifier with a cost >= 0. The policy and the identifier's bytes outlive the call.
struct Charge {
  const CompiledPolicy* policy;
  std::string_view identifier;
  Cost cost = 1;
  Role role = Role::enforce;
};

inline constexpr std::size_t kMaxCharges = 64;

/// Some of a call's charges: a bit for each, the lowest for the first one.
using ChargeBits = std::uint64_t;
static_assert(kMaxCharges <= 64);

/// Whether the call writes what it decides; a peek writes nothing.
enum class Mode : std::uint8_t { consume, peek };

/// Charges decided together: all or nothing. No (policy, identifier) pair occurs twice, and no two policies
/// of one policy name have different limits.
///
/// With `patience` the caller waits for its turn: a call whose delay would be longer is refused, and no
/// refusal locks anybody. `clock` is an injected clock; without one, `now` is an instant that is known, and
/// without that the store reads its own clock. `system_clock` says that what is injected is this machine's
/// real time, so that state may expire by real time soon after. A store that waits does so for `timeout` at
/// most, or for its own.
struct Call {
  std::span<const Charge> charges;
  Mode mode = Mode::consume;
  std::optional<Instant> now{};
  bool system_clock = false;
  Duration patience = kNever;
  std::optional<Duration> timeout{};
  Clock* clock = nullptr;
  bool shows_present = false;  ///< rows of Role::always are those of a call of cost 0 after the charge

  /// The reading of what is injected, if anything is. Throws std::out_of_range for one that no clock has.
  [[nodiscard]] std::optional<Instant> reading() const {
    if (clock != nullptr) return clock->now();
    return now ? std::optional(checked_instant(*now)) : std::nullopt;
  }
};

inline std::size_t pairs_of(std::span<const Charge> charges) {
  std::size_t pairs = 0;
  for (const Charge& charge : charges) pairs += charge.policy->size();
  return pairs;
}

/// Whether a calendar has a say in any of these charges.
inline bool have_calendar(std::span<const Charge> charges) {
  return std::ranges::any_of(charges, [](const Charge& charge) { return charge.policy->has_calendar(); });
}

/// A call as it is decided at an instant: where a policy follows a calendar, as it is at that time.
class DatedCall : NonCopyable {
 public:
  explicit DatedCall(const Call& call) : given_(call.charges), call_(call) {}
  /// May ask the calendar (see CompiledPolicy::dated).
  DatedCall(const Call& call, Instant now) : DatedCall(call) { move_to(now); }

  /// Whether the policies are as they are at this instant.
  [[nodiscard]] bool holds_at(Instant now) const {
    return charges_.empty() ||
           std::ranges::all_of(charges_, [&](const Charge& charge) { return charge.policy->holds_at(now); });
  }
  /// Takes the policies as they are at another instant.
  void move_to(Instant now) {
    date_each([now](const CompiledPolicy& policy) { return policy.dated(now); });
  }
  /// Takes the policies as they were last, which is mostly how they are; one without a last, as at now().
  template <class Now>
  void move_to_latest(const Now& now) {
    date_each([&](const CompiledPolicy& policy) { return policy.latest_or_at(now); });
  }

  const Call& operator*() const { return call_; }

 private:
  template <class Dating>
  void date_each(const Dating& dating) {
    if (!have_calendar(given_)) return;
    charges_.assign(given_.begin(), given_.end());
    policies_.clear();
    for (Charge& charge : charges_) {
      if (!charge.policy->has_calendar()) continue;
      policies_.push_back(dating(*charge.policy));
      charge.policy = policies_.back().get();
    }
    call_.charges = charges_;
  }

  std::span<const Charge> given_;
  Call call_;
  std::vector<Charge> charges_;
  std::vector<std::shared_ptr<const CompiledPolicy>> policies_;
};

/// What a call writes, by the rules of the roles.
struct Resolution {
  Status status = Status::ok;   ///< of the call
  bool passes = true;           ///< every enforced charge passes, and every meta limit has room for a refusal
  bool counts_refusal = false;  ///< the enforced ones answer `over`, and that is charged to the meta limits
  bool may_lock = false;        ///< the call is refused, and that may set locks

  /// Whether a charge with this role and this verdict of its own is written.
  [[nodiscard]] bool charges(Role role, Status own) const {
    if (role == Role::on_refusal) return counts_refusal;
    return passes && (own == Status::ok || role == Role::always);
  }
};

/// What a charge asks of its limits: its cost, or one refusal for a meta limit.
inline Cost cost_of(const Charge& charge) { return charge.role == Role::on_refusal ? 1 : charge.cost; }

/// Whether a call that is admitted spends anything at all; one that does not writes nothing either way.
inline bool spends(std::span<const Charge> charges) {
  return std::ranges::any_of(
      charges, [](const Charge& charge) { return charge.role != Role::on_refusal && charge.cost > 0; });
}

/// Settles a call by the verdicts on its charges; `verdict_of(i)` is the worst status of charge i.
template <class VerdictOf>
Resolution resolve(const Call& call, const VerdictOf& verdict_of) {
  const std::span<const Charge> charges = call.charges;
  Status enforced = Status::ok;
  Status meta = Status::ok;
  Status others = Status::ok;
  bool has_enforced = false;
  bool has_meta = false;
  for (std::size_t i = 0; i < charges.size(); ++i) {
    const Status own = verdict_of(i);
    if (charges[i].role == Role::enforce) {
      has_enforced = true;
      enforced = std::max(enforced, own);
    } else if (charges[i].role == Role::on_refusal) {
      has_meta = true;
      meta = std::max(meta, own);
    } else {
      others = std::max(others, own);
    }
  }
  const bool meta_fits = meta == Status::ok;
  Resolution resolution;
  resolution.status = !meta_fits ? meta : has_enforced ? enforced : others;
  resolution.passes = enforced == Status::ok && meta_fits;
  resolution.counts_refusal = has_meta && meta_fits && enforced == Status::over && spends(charges);
  // A caller that waits for its turn commits no violation by asking.
  resolution.may_lock =
      !resolution.passes && enforced != Status::never && call.patience == kNever && spends(charges);
  return resolution;
}

/// The lock on an identifier after its call was refused; nothing if it stays as it is. `own` is the verdict
/// on the identifier's charge, `lock` the lock before. A violation sets the next level's lock, and a hit
/// during a lock may start that lock anew.
inline std::optional<Lock> lock_after_refusal(const Resolution& resolution, const Charge& charge, Status own,
                                              const std::optional<Lock>& lock, Instant reading) {
  const Penalty* penalty = charge.policy->penalty();
  if (penalty == nullptr || !resolution.may_lock || own != resolution.status) return std::nullopt;
  if (charge.role == Role::shadow || charge.role == Role::always || cost_of(charge) == 0) return std::nullopt;
  if (own == Status::over) return next_lock(*penalty, lock, reading);
  if (own == Status::locked && extends(*penalty, *lock)) return extended(*penalty, *lock, reading);
  return std::nullopt;
}

}  // namespace overlimit
