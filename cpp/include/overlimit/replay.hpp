// Replays events through one policy at the instants they carry: what a limiter with an unbounded memory store
// would have answered. Identifiers are numbers, so the state of each is found by its place, without hashing.
#pragma once

#ifndef OVERLIMIT_LINKS_SIMULATION
#error "only targets that link overlimit_simulation may include replay.hpp"
#endif

#include <memory>
#include <span>
#include <vector>

#include "overlimit/compiled_policy.hpp"
#include "overlimit/store.hpp"

namespace overlimit {

/// Events in the order of their times. Each has the number of its identifier in one column or more, else -1.
struct ReplayedEvents {
  std::span<const Instant> times;
  std::vector<const std::int32_t*> columns;
  const Cost* costs = nullptr;  ///< null: 1 each
};

/// Where the answers go, a column each; null: it isn't wanted.
struct ReplayedAnswers {
  const std::int64_t* places = nullptr;  ///< the row of each event; null: its own
  std::uint8_t* allowed = nullptr;
  std::uint8_t* status = nullptr;
  std::int64_t* remaining = nullptr;
  double* retry_after = nullptr;  ///< seconds; infinity for never
  double* reset_after = nullptr;
  double* delay = nullptr;
  std::int16_t* limit = nullptr;       ///< the place of the binding limit, in the order the limits were given
  std::int16_t* identifier = nullptr;  ///< the column of the binding identifier
};

/// Throws std::invalid_argument unless the events [first, last) can be replayed with so many identifiers.
void check(const ReplayedEvents& events, std::size_t first, std::size_t last, const ReplayedAnswers& answers,
           std::span<const std::int32_t> distinct);

/// What one limit did over a replay, or the locks of a penalty.
struct LimitTally {
  std::int64_t refused = 0;             ///< events that it refused
  std::int64_t refused_alone = 0;       ///< of these, events that nothing else refused
  std::int64_t least_left = INT64_MAX;  ///< the smallest remaining after an event, in cost units
  std::int64_t most = 0;                ///< the most it can ever grant
  Duration longest_retry_after{};
};

class Replay {
 public:
  /// `distinct`: how many identifiers each column has. The policy must outlive it. Throws std::bad_alloc.
  Replay(const CompiledPolicy& policy, std::span<const std::int32_t> distinct);
  ~Replay();
  /// Decides checked events [first, last), which follow those decided before. May ask the policy's calendar.
  void run(const ReplayedEvents& events, std::size_t first, std::size_t last, const ReplayedAnswers& answers);
  /// From now on counts what each limit does.
  void start_tallies();
  /// Per limit in the order given, then that of locks.
  [[nodiscard]] std::vector<LimitTally> tallies() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace overlimit
