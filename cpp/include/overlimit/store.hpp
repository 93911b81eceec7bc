// The seam: "decide these charges atomically". A store is where state lives and where decisions are made;
// memory and Redis are two of them. Folding rows into a Decision is decision.hpp, the same for every store.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string_view>

#include "overlimit/algorithms/step.hpp"
#include "overlimit/plan.hpp"

namespace overlimit {

/// How a charge takes part in its call (docs/semantics.md: roles).
///   enforce     checked; charged when every enforced charge of the call passes
///   shadow      checked; charged when the enforced ones pass and it passes itself; never refuses
///   on_refusal  charged 1 when the enforced ones answer `over`; refuses the call once that no longer fits
enum class Role : std::uint8_t { enforce, shadow, on_refusal };

/// One policy and one identifier with a cost >= 0. The plan and the identifier's bytes outlive the call.
struct Charge {
  const Plan* plan;
  std::string_view identifier;
  Cost cost = 1;
  Role role = Role::enforce;
};

/// The most charges that one call has.
inline constexpr std::size_t kMaxCharges = 64;

/// Some of a call's charges: a bit for each, the lowest for the first one.
using ChargeBits = std::uint64_t;
static_assert(kMaxCharges <= 64);

/// What becomes of the answer. peek: nothing is written.
enum class Mode : std::uint8_t { consume, peek };

/// Charges decided together: all or nothing. No (policy, identifier) pair occurs twice, and no two plans of
/// one policy name have different limits.
/// With `patience` the caller waits for its turn: a call whose delay would be longer is refused, and no
/// refusal locks anybody. `now` is the reading of an injected clock; without it the store reads its own.
/// `system_clock` says that an injected reading is this machine's real time, so that state may expire by real
/// time soon after.
struct Call {
  std::span<const Charge> charges;
  Mode mode = Mode::consume;
  std::optional<Micros> now{};
  bool system_clock = false;
  Micros patience = kNever;
};

/// Where one pair was charged: the key's birth, and the record right after. Birth 0: not charged.
struct Receipt {
  Micros birth = 0;
  Header after{};
};

/// The answers to the pairs of a call, in columns that the caller owns. One row per pair: charges in the
/// order given, and for each its policy's limits in canonical order. Filled only when the call returns.
struct Rows {
  std::span<Status> status;           ///< the pair's own verdict
  std::span<std::int64_t> remaining;  ///< cost units still granted, after the call
  std::span<Micros> retry_after;      ///< 0 | until this pair would admit | kNever
  std::span<Micros> reset_after;      ///< until the record is back to "never seen"
  std::span<Micros> delay;            ///< how long who is admitted, now or after retry_after, then waits
  std::span<Receipt> receipt;
};

/// Rows from `first` on, `count` of them.
inline Rows rows_of(const Rows& rows, std::size_t first, std::size_t count) {
  return {rows.status.subspan(first, count),      rows.remaining.subspan(first, count),
          rows.retry_after.subspan(first, count), rows.reset_after.subspan(first, count),
          rows.delay.subspan(first, count),       rows.receipt.subspan(first, count)};
}

/// Whether a store is asked at all. open: calls fail at once, but for one probe at a time; half_open: a probe
/// is under way.
enum class Breaker : std::uint8_t { closed, open, half_open };

/// Called when a wait is interrupted; true ends the wait.
using Interrupted = std::function<bool()>;

/// Thread-safe. Every operation throws only std::out_of_range (an instant out of range), std::bad_alloc and
/// the errors of errors.hpp; after an error with maybe_charged false nothing was charged.
class Store {
 public:
  virtual ~Store() = default;

  /// Called once when a policy is bound to this store, before other threads know the plan: compiles what its
  /// calls will need, and leaves it with the plan. One that was not prepared is decided all the same.
  virtual void prepare(Plan& plan) = 0;

  /// Decides each call atomically and independently of the others, in order. `rows` holds the pairs of all
  /// calls one after another; `times` gets each call's reading of the clock. Returns the crowded charges, by
  /// their places in their calls: those that were decided by counts which identifiers share because there was
  /// no room for their own. A peek has none.
  virtual ChargeBits decide(std::span<const Call> calls, const Rows& rows, std::span<Micros> times,
                            const Interrupted& interrupted) = 0;

  /// Gives back what a call has charged: its charges as they were, and the receipts of its pairs. What was
  /// charged under a key that was born again since, or is gone, stays as it is. Atomic per charge.
  virtual void refund(const Call& call, std::span<const Receipt> receipts,
                      const Interrupted& interrupted) = 0;

  /// Locks the identifiers of a call's charges for so long from now, whatever they did.
  virtual void lock(const Call& call, Micros duration, const Interrupted& interrupted) = 0;

  /// Lifts the locks of the identifiers of a call's charges, whoever set them. What was counted and the level
  /// of a penalty stay; nothing is written for who is not locked.
  virtual void unlock(const Call& call, const Interrupted& interrupted) = 0;

  /// Forgets everything of these identifiers in one policy.
  virtual void reset(const Plan& plan, std::span<const std::string_view> identifiers,
                     const Interrupted& interrupted) = 0;

  /// Forgets everything in one policy. Not one step: calls may come in between.
  virtual void reset_all(const Plan& plan, const Interrupted& interrupted) = 0;

  /// Whether others than this process may see its state, by the names of policies: those without a name
  /// cannot be told apart there.
  [[nodiscard]] virtual bool is_shared() const = 0;

  /// Whether a call may wait for somebody else, so that callers release what others need meanwhile.
  [[nodiscard]] virtual bool waits() const = 0;

  /// How it stands with the store's failures; one that cannot fail is closed.
  [[nodiscard]] virtual Breaker breaker() const { return Breaker::closed; }

  /// The longest that a call takes; 0: it doesn't wait.
  [[nodiscard]] virtual Micros timeout() const { return 0; }
};

/// The pairs of a call.
inline std::size_t pairs_of(std::span<const Charge> charges) {
  std::size_t pairs = 0;
  for (const Charge& charge : charges) pairs += charge.plan->size();
  return pairs;
}

}  // namespace overlimit
