// The seam: "decide these charges atomically". A store is where state lives and where decisions are made.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <exception>
#include <optional>
#include <span>
#include <string_view>

#include "overlimit/breaker_state.hpp"
#include "overlimit/call.hpp"
#include "overlimit/errors.hpp"

namespace overlimit {

/// When the key of a pair was created, and the record right after the charge. Created at 0: not charged.
struct Receipt {
  Instant created_at{};
  Header after{};
};

/// The answers to the pairs of a call, in columns of this many rows that the caller owns. One row per pair:
/// charges in the order given, and for each its policy's limits in canonical order. Filled only when the call
/// returns.
struct Rows {
  Status* status = nullptr;           ///< the pair's own verdict
  std::int64_t* remaining = nullptr;  ///< cost units still granted, after the call
  Duration* retry_after = nullptr;    ///< 0 | until this pair would admit | kNever
  Duration* reset_after = nullptr;    ///< until the record is back to "never seen"
  Duration* delay = nullptr;          ///< how long the caller then waits, admitted now or after retry_after
  Receipt* receipt = nullptr;
  std::size_t count = 0;

  [[nodiscard]] std::span<const Receipt> receipts() const { return {receipt, count}; }
};

inline Rows rows_of(const Rows& rows, std::size_t first, std::size_t count) {
  return {rows.status + first,
          rows.remaining + first,
          rows.retry_after + first,
          rows.reset_after + first,
          rows.delay + first,
          rows.receipt + first,
          count};
}

/// So many rows in memory of their own, which may begin without values: kRowBytes each.
inline constexpr std::size_t kRowBytes = sizeof(Receipt) + 4 * sizeof(std::int64_t) + sizeof(Status);
inline Rows rows_at(std::byte* memory, std::size_t count) {
  const auto take = [&]<class T>(T*& column) {
    column = reinterpret_cast<T*>(memory);
    memory += count * sizeof(T);
  };
  Rows rows;
  rows.count = count;
  take(rows.receipt);  // the widest first
  take(rows.remaining);
  take(rows.retry_after);
  take(rows.reset_after);
  take(rows.delay);
  take(rows.status);
  return rows;
}

inline void copy_rows(const Rows& from, const Rows& to) {
  std::copy_n(from.status, from.count, to.status);
  std::copy_n(from.remaining, from.count, to.remaining);
  std::copy_n(from.retry_after, from.count, to.retry_after);
  std::copy_n(from.reset_after, from.count, to.reset_after);
  std::copy_n(from.delay, from.count, to.delay);
  std::copy_n(from.receipt, from.count, to.receipt);
}

/// What is left after a refund: the rows of these charges, which are of the same keys and of cost 0, and
/// when.
struct Present {
  std::span<const Charge> charges;
  Rows rows;
  Instant time{};
};

/// Who has decided.
enum class Source : std::uint8_t {
  store,    ///< whoever keeps the state
  local,    ///< this process in its place, as that fails (on_error)
  error,    ///< nobody
  refusal,  ///< this process, by what was reported to it of the state lately
  lease,    ///< this process, by what it has charged early
};
inline constexpr std::size_t kSources = 5;

/// What the decision of a store rests on.
struct Basis {
  ChargeBits crowded = 0;  ///< charges decided by counts that identifiers share, as there was no room
  Source source = Source::store;
  std::uint16_t restored = 0;  ///< keys that servers had lost and this process has brought back
  std::uint32_t commands = 0;  ///< sent to servers for it
};

/// Units that this process has charged early under a policy.
struct LeaseCounts {
  std::uint64_t granted = 0;   ///< in all
  std::uint64_t held = 0;      ///< and may still spend
  std::uint64_t returned = 0;  ///< and has released
  std::uint64_t lapsed = 0;    ///< and has lost
};

/// Given as Interrupted to a store that waits seldom: a call that would have to wait throws WouldWait
/// instead, before it has done anything.
struct DontWait {
  bool operator()() const { return false; }
};
class WouldWait : public std::exception {};

/// The same for a caller who comes back soon, as often as it takes: by the first wait it is found out whether
/// somebody who died is waited for, and after `until` it throws StoreTimeout instead.
struct ComeBack {
  std::chrono::steady_clock::time_point until;
  bool operator()() const { return false; }
};

/// Thread-safe. Every operation throws std::out_of_range for an instant out of range, std::invalid_argument
/// for a call that no store takes, std::bad_alloc, the errors of errors.hpp, and whatever a clock or a
/// calendar raises. After an error with maybe_charged false nothing was charged.
class Store {
 public:
  virtual ~Store() = default;

  /// Decides each call atomically and independently of the others, in order. `rows` holds the pairs of all
  /// calls one after another; `times` gets the instant of each call, which is not before that of any call it
  /// follows on one of its keys unless the clock was set back, and `bases` what each rests on. A peek has no
  /// crowded charges. Several calls have one timeout, that of the first. When it throws, some of them may
  /// have been decided: these have their rows and times, and times of the others are as they were.
  virtual void decide(std::span<const Call> calls, const Rows& rows, std::span<Instant> times,
                      std::span<Basis> bases, const Interrupted& interrupted) = 0;

  /// The same for one call, as most come, which decide_here() has not decided.
  virtual void decide_one(const Call& call, const Rows& rows, Instant& time, Basis& basis,
                          const Interrupted& interrupted) {
    decide({&call, 1}, rows, {&time, 1}, {&basis, 1}, interrupted);
  }

  /// Decides a call by what this process knows, without waiting for anybody. Otherwise it returns false and
  /// has done nothing.
  virtual bool decide_here(const Call& /*call*/, const Rows& /*rows*/, Instant& /*time*/, Basis& /*basis*/) {
    return false;
  }

  /// Refunds what a call has charged, given its charges as they were and the receipts of its pairs; with
  /// lower costs, as much of it. A key that is gone, or was created again since the charge, stays as it is.
  /// Atomic per charge. Fills `present`, unless it is nullptr.
  virtual void refund_showing(const Call& call, std::span<const Receipt> receipts, Present* present,
                              const Interrupted& interrupted) = 0;
  void refund(const Call& call, std::span<const Receipt> receipts, const Interrupted& interrupted) {
    refund_showing(call, receipts, nullptr, interrupted);
  }

  /// Locks the identifiers of a call's charges for this long from now, whatever their usage.
  virtual void lock(const Call& call, Duration duration, const Interrupted& interrupted) = 0;
  /// Lifts the locks of a call's identifiers, whoever set them; counts and the level of a penalty stay. For
  /// an identifier that is not locked, nothing is written.
  virtual void unlock(const Call& call, const Interrupted& interrupted) = 0;

  /// Removes everything that is stored for these identifiers in one policy, whatever its limits.
  virtual void reset(const PolicyIdentity& policy, std::span<const std::string_view> identifiers,
                     const Interrupted& interrupted) = 0;

  /// Removes everything that is stored for one policy. Not one step: calls may come in between.
  virtual void reset_all(const PolicyIdentity& policy, const Interrupted& interrupted) = 0;

  /// Asks for an answer of whoever keeps the state, with what a call needs on its way there and under the
  /// same errors, and writes nothing. Within `timeout` instead of the store's own, if there is one. Returns
  /// how long the answer took.
  virtual Duration ping(std::optional<Duration> /*timeout*/, const Interrupted& /*interrupted*/) {
    return {};
  }

  /// Whether other processes may see its state, by the names of policies.
  [[nodiscard]] virtual bool is_shared() const = 0;
  /// Whether another store object keeps its state in the same place, so that one call may concern both.
  [[nodiscard]] virtual bool is_same_as(const Store& other) const { return this == &other; }
  /// Whether a call may wait for somebody else, so that callers release what others need meanwhile.
  [[nodiscard]] virtual bool waits() const = 0;
  /// Whether a call hardly ever has to wait although it may: then it understands DontWait.
  [[nodiscard]] virtual bool waits_seldom() const { return false; }
  /// What has become of the units that this process has charged early under a policy.
  [[nodiscard]] virtual LeaseCounts leased(const PolicyIdentity& /*policy*/) const { return {}; }
  /// How long what is charged early under a policy may be spent at most; 0: nothing is.
  [[nodiscard]] virtual Duration longest_lease(const CompiledPolicy& /*policy*/) const { return {}; }
  /// How often whoever keeps the state has answered this process; nothing: it is asked with each call.
  [[nodiscard]] virtual std::optional<std::uint64_t> answers() const { return std::nullopt; }
  /// The state of the store's circuit breaker; closed for a store that cannot fail.
  [[nodiscard]] virtual BreakerState breaker() const { return BreakerState::closed; }
  /// Closes what this process, or the event loop of the caller, has open; a later call opens it again.
  virtual void close() {}
  /// The longest that a call takes; 0: it doesn't wait.
  [[nodiscard]] virtual Duration timeout() const { return {}; }
};

}  // namespace overlimit
