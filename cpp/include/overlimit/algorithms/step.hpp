// What every algorithm speaks: the verdict on one (identifier, limit) pair and the form of its state.
//
// An algorithm is a struct of numbers (the limit) with a State and pure functions. None of them sees a
// clock, a lock or I/O; all arithmetic is on integers that stay below 2^53. `now` is the instant at which the
// pair is decided: the call's reading, but never before `clamp`. docs/semantics.md has the rules.
//
// clang-format off
//   clamp(limit, state)                       -> the record's own time; kMaxTime: the record is none of ours
//   advance(limit, state, cells, now)         -> what is left of it at now; nullopt: as if never seen
//   admit(limit, standing, cells, now, cost)  -> Verdict
//   charge(limit, standing, now, cost)        -> Charged, the record after an admitted cost > 0
//   refund(limit, state, cells, then, now, cost)
//                                             -> Refunded, the record once what is left of a charge that led to
//                                                the state `then` is given back; nullopt: nothing is left
//   remaining(limit, state, now)              -> cost units the limit still grants
//   expires_at(limit, state, cells)           -> the instant at which the record is back to "never seen"
//   delay(limit, state, now)                  -> how long who was just charged waits; only where some do
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
  Micros retry_after = 0;  ///< 0 when ok, >= 1 when over, kNever when never
};

inline constexpr Verdict kAdmitted{};
inline constexpr Verdict kNeverAdmitted{Status::never, kNever};

constexpr Verdict over(Micros retry_after) noexcept { return {Status::over, retry_after}; }

/// One entry of a history: a block of time (or an instant) and what was charged in it.
struct Cell {
  std::int64_t at;
  std::int64_t count;
  bool operator==(const Cell&) const = default;
};

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

/// The header of a record in the form stores keep it.
using Header = std::array<std::int64_t, 3>;

/// What is left of a record at some instant: its header, and how many of its oldest cells no longer count.
template <class State>
struct Standing {
  State state{};
  std::size_t dropped = 0;
};

/// A record after a charge: drop the oldest cells, then append `pushed` if there is one.
template <class State>
struct Charged {
  State state{};
  std::size_t dropped = 0;
  std::optional<Cell> pushed{};
};

/// A record after a refund: its header, and how much one of its cells still counts. An emptied cell goes.
template <class State>
struct Refunded {
  State state{};
  std::size_t cell = SIZE_MAX;  ///< SIZE_MAX: the cells stay as they are
  std::int64_t cell_count = 0;
};

/// The same of a limit by its type: what is left of its record, if anything is; the record after a charge,
/// and after a refund, if that changes anything.
template <class Limited>
using Left = std::optional<Standing<typename Limited::State>>;
template <class Limited>
using After = Charged<typename Limited::State>;
template <class Limited>
using Repaid = std::optional<Refunded<typename Limited::State>>;

/// Whether an algorithm makes those wait whom it admits; most let them go at once.
template <class Limited>
concept Delaying = requires(const Limited& limit, const typename Limited::State& state) {
  { delay(limit, state, Micros{}) } -> std::same_as<Micros>;
};

template <class State>
inline constexpr bool kIsState = std::is_trivially_copyable_v<State> && sizeof(State) == sizeof(Header);

}  // namespace overlimit
