// The replay that asks for the least: whether each event passes, of one identifier each, under limits of one
// algorithm and no penalty. Then the algorithm is chosen once, and not for every event.
#pragma once

#include "overlimit/replay.hpp"
#include "simulation/dense_records.hpp"

namespace overlimit {
inline namespace simulation {

// How many events ahead the records are fetched from main memory, and twice as many where they begin.
inline constexpr std::size_t kAhead = 8;

inline std::size_t row_of(const ReplayedAnswers& answers, std::size_t event) {
  return answers.places == nullptr ? event : static_cast<std::size_t>(answers.places[event]);
}

inline void answer_status(const ReplayedAnswers& answers, std::size_t event, Status status) {
  const std::size_t row = row_of(answers, event);
  if (answers.allowed != nullptr) answers.allowed[row] = status == Status::ok;
  if (answers.status != nullptr) answers.status[row] = static_cast<std::uint8_t>(status);
}

/// Decides the events [first, last) and answers their statuses. False, with nothing done, if these are not
/// such limits or such events.
bool decide_statuses(const CompiledPolicy& policy, DenseRecords& records, const ReplayedEvents& events,
                     std::size_t first, std::size_t last, const ReplayedAnswers& answers);

}  // namespace simulation
}  // namespace overlimit
