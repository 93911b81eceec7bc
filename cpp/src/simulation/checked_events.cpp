#include <algorithm>
#include <stdexcept>
#include <string>

#include "overlimit/replay.hpp"

namespace overlimit {
namespace {

/// Each of these must be at least `least` and below `bound`.
template <class Number>
void check_range(std::span<const Number> rows, Number least, Number bound, const std::string& name) {
  const auto fits = [&](Number value) { return least <= value && value < bound; };
  if (std::ranges::all_of(rows, fits)) return;
  throw std::invalid_argument(name + " must be from " + std::to_string(number_of(least)) + " to below " +
                              std::to_string(number_of(bound)));
}

void check_identifiers(const ReplayedEvents& events, std::size_t first, std::size_t last) {
  for (std::size_t event = first; event < last; ++event) {
    const auto is_missing = [&](const std::int32_t* codes) { return codes[event] < 0; };
    if (std::ranges::all_of(events.columns, is_missing)) {
      throw std::invalid_argument("each event must have an identifier");
    }
  }
}

}  // namespace

void check(const ReplayedEvents& events, std::size_t first, std::size_t last, const ReplayedAnswers& answers,
           std::span<const std::int32_t> distinct) {
  if (first > last || last > events.times.size()) throw std::invalid_argument("there are no such events");
  if (events.columns.size() != distinct.size()) {
    throw std::invalid_argument("there must be " + std::to_string(distinct.size()) + " columns of codes");
  }
  const std::size_t count = last - first;
  const std::span<const Instant> times = events.times.subspan(first, count);
  check_range<Instant>(times, Instant{}, kMaxTime, "times");
  if (!std::ranges::is_sorted(times)) throw std::invalid_argument("times must not go back");
  if (events.costs != nullptr) check_range<Cost>({events.costs + first, count}, 0, kExact + 1, "costs");
  const auto rows = static_cast<std::int64_t>(events.times.size());
  if (answers.places != nullptr) check_range<std::int64_t>({answers.places + first, count}, 0, rows, "order");
  for (std::size_t i = 0; i < distinct.size(); ++i) {
    check_range<std::int32_t>({events.columns[i] + first, count}, -1, distinct[i], "codes");
  }
  check_identifiers(events, first, last);
}

}  // namespace overlimit
