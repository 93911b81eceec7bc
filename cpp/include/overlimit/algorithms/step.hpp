// What every algorithm provides: a verdict on one (identifier, limit) pair, and the form of its state.
//
// An algorithm is a struct of numbers (the limit) with a State and pure functions. None of them sees a
// clock, a lock or I/O; all arithmetic is on integers that stay below 2^53. `now` is the instant at which the
// pair is decided: the call's reading of the clock, but never before `time_of` the record. docs/semantics.md
// has the rules.
//
// clang-format off
//   time_of(limit, state)                     -> the record's own time; kMaxTime: this algorithm did not write it
//   advance(limit, state, cells, now)         -> the record as it is at now; nullopt: as if never seen
//   admit(limit, current, cells, now, cost)   -> Verdict
//   charge(limit, current, now, cost)         -> the record after an admitted cost > 0
//   refund(limit, state, cells, then, now, cost)
//                                             -> the record after the refund of a charge that led to the state
//                                                `then`; nullopt: nothing of that charge is left
//   remaining(limit, state, now)              -> cost units the limit still grants
//   expires_at(limit, state, cells)           -> the instant at which the record is back to "never seen"
//   delay(limit, state, now)                  -> how long the caller just charged waits; only for algorithms
//                                                that make callers wait
//   knows_refunds(limit, state)               -> whether the record says what refunds have given back; only for
//                                                algorithms whose refunds depend on those before, like the next two
//   drains_faster(one, other)                 -> whether what was charged is gone sooner by the one limit
//   state_after(limit, charged, then, cost)   -> what a charge by the other limit led to, as this one counts it
//   has_holds(limit, cells)                   -> whether these cells hold units for leases; only for algorithms
//                                                whose units would drain before they are spent, like the next
//   cells_after_charge(limit, state, cells, now)
//                                             -> the cells of such a record after a charge
//   longest_lease(limit)                      -> for how long units may be charged early and spent later
//                                                (docs/semantics.md: leases); 0: not at all
//   same_until(limit, state)                  -> until when it is the same when a unit is charged, after a charge
//                                                that led to this state
//   most_leased(limit)                        -> the most that can be charged early at once; its `most` if it
//                                                has no such function
//   holds_leases(limit)                       -> whether its records hold what is leased; only for algorithms whose
//                                                units drain continuously, like the next
//   without_charge(limit, charged, cost)      -> the state as it would be without this part of the charge that led
//                                                to it; what it grants is not simply as much more
// clang-format on
//
// A State is a trivially copyable header of three int64, the same bytes in memory and in Redis. Algorithms
// that keep a history (sliding windows and logs) also have cells: an array, oldest first, of bounded length;
// the newest cell is the first two numbers of their header, so that a charge in the same block moves nothing.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>

#include "overlimit/time.hpp"

namespace overlimit {

using Cost = std::int64_t;

enum class Status : std::uint8_t { ok, over, locked, never };

struct Verdict {
  Status status = Status::ok;
  Duration retry_after{};  ///< 0 when ok, >= 1 when over, kNever when never
};

/// No hold of a lease lasts longer, and so no lease.
inline constexpr Duration kLongestHold{15'000'000};

/// The most that can be charged early at once.
constexpr Cost most_leased(const auto& limit) { return limit.most(); }

inline constexpr Verdict kAdmitted{};
inline constexpr Verdict kNeverAdmitted{Status::never, kNever};

constexpr Verdict over(Duration retry_after) noexcept { return {Status::over, retry_after}; }

/// One entry of a history: a block of time (or an instant) and what was charged in it. Or a note: one more
/// number of the state, kept as a negative count; it is the only cell, unless holds follow it (holds.hpp).
struct Cell {
  std::int64_t at;
  std::int64_t count;
  bool operator==(const Cell&) const = default;
};

/// The most cells that a record keeps: those of a log of 10,000 entries, whose newest is in the header. One
/// more, and the two oldest become one at the later time.
inline constexpr std::size_t kMostCells = 9'999;

/// A read-only view of a record's cells, oldest first; at most two pieces because memory keeps a ring.
class Cells {
 public:
  Cells() = default;
  Cells(const Cell* cells, std::size_t size) : first_(cells), first_size_(size), size_(size) {}
  Cells(const Cell* first, std::size_t first_size, const Cell* second, std::size_t second_size)
      : first_(first), second_(second), first_size_(first_size), size_(first_size + second_size) {}

  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  const Cell& operator[](std::size_t index) const noexcept {
    return index < first_size_ ? first_[index] : second_[index - first_size_];
  }

 private:
  const Cell* first_ = nullptr;
  const Cell* second_ = nullptr;
  std::size_t first_size_ = 0;
  std::size_t size_ = 0;
};

/// What the numbers of a state may be.
constexpr std::int64_t number_of(std::int64_t number) noexcept { return number; }
constexpr std::int64_t number_of(Instant instant) noexcept { return instant.micros(); }
struct AnyNumber {
  std::int64_t number;
  constexpr operator std::int64_t() const noexcept { return number; }
  constexpr operator Instant() const noexcept { return Instant(number); }
};

/// The header of a record in the form stores keep it.
using Header = std::array<std::int64_t, 3>;

/// The three numbers of a state, and the state of three numbers. Not a copy of bytes: right after single
/// numbers were written, the processor waits to read several at once.
template <class State>
constexpr Header header_from(const State& state) noexcept {
  const auto& [first, second, third] = state;
  return {number_of(first), number_of(second), number_of(third)};
}
template <class State>
constexpr State state_from(const Header& header) noexcept {
  return {AnyNumber{header[0]}, AnyNumber{header[1]}, AnyNumber{header[2]}};
}

/// A record as it is at some instant, before a charge: how many of its oldest cells no longer count.
template <class State>
struct CurrentRecord {
  State state{};
  std::size_t dropped = 0;
};

/// A record after a charge. Its oldest cells are dropped, then `pushed` is appended if there is one.
template <class State>
struct ChargedRecord {
  State state{};
  std::size_t dropped = 0;
  std::optional<Cell> pushed{};
};

/// A record after a refund, and what one of its cells counts then. A cell that counts nothing is removed.
template <class State>
struct RefundedRecord {
  State state{};
  std::size_t cell = SIZE_MAX;  ///< SIZE_MAX: the cells stay as they are
  std::int64_t cell_count = 0;
  std::optional<Cell> note{};  ///< takes the place of the cells
};

/// The records of a limit, which are nothing if it is as if the key had never been seen, or if nothing is
/// left.
template <class Limited>
using Current = std::optional<CurrentRecord<typename Limited::State>>;
template <class Limited>
using Charged = ChargedRecord<typename Limited::State>;
template <class Limited>
using Refunded = std::optional<RefundedRecord<typename Limited::State>>;

/// How many numbers a script reads of each limit; where its algorithm has fewer, the others are 0.
inline constexpr std::size_t kPackedNumbers = 6;

/// Whether an algorithm makes admitted callers wait; most let them go at once.
template <class Limited>
concept Delaying = requires(const Limited& limit, const typename Limited::State& state) {
  { delay(limit, state, Instant{}) } -> std::same_as<Duration>;
};

/// Whether records know what was refunded. Such a record is kept until all that was charged to it would be
/// gone, had nothing been refunded.
template <class Limited>
concept KnowingRefunds = requires(const Limited& limit, const typename Limited::State& state) {
  { knows_refunds(limit, state) } -> std::same_as<bool>;
};

/// Whether records hold units for leases.
template <class Limited>
concept Holding = requires(const Limited& limit, const Cells& cells) {
  { has_holds(limit, cells) } -> std::same_as<bool>;
};

template <class State>
inline constexpr bool kIsState = std::is_trivially_copyable_v<State> && sizeof(State) == sizeof(Header);

}  // namespace overlimit
