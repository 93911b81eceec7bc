#include "store_calls.hpp"

#include <cstddef>
#include <cstdint>

#include "store_task.hpp"

namespace overlimit::python {
namespace {

/// Returns where the store counts, or nullptr.
CounterSlot* set_breaker(std::span<LimiterState* const> limiters, BreakerState breaker) {
  CounterSlot* const counters = limiters.empty() ? nullptr : limiters.front()->counters_of_store;
  if (counters != nullptr) counters->set(place_of("breaker"), std::uint64_t(breaker));
  return counters;
}

}  // namespace

void count_latency(std::span<LimiterState* const> limiters, std::chrono::steady_clock::duration took) {
  const auto micros = std::chrono::ceil<std::chrono::microseconds>(took).count();
  count_of_store(limiters, place_of("latencies") + place_among(kLatencyBounds, Duration(micros)));
  count_of_store(limiters, place_of("latency_micros"), std::uint64_t(micros));
  set_breaker(limiters, BreakerState::closed);  // unless a failure follows
}

void count_failure(std::span<LimiterState* const> limiters, const StoreError& error, BreakerState breaker) {
  count_of_store(limiters, place_of("errors") + std::size_t(error.kind()));
  if (CounterSlot* const counters = set_breaker(limiters, breaker))
    counters->set(place_of("failed_at"), std::uint64_t(system_now().micros()) / 1'000'000);
}

Object perform(StoreTask& task) {
  if (task.is_nothing()) return task.answer();
  const auto ask = [&](Store& store, const Interrupted& interrupted) { task.ask(store, interrupted); };
  try {
    if (task.limiters().empty()) {
      without_gil([&](const Interrupted& interrupted) { ask(task.store(), interrupted); });
    } else if (task.is_long()) {
      ask_store_for_many(task.limiters(), ask);
    } else {
      ask_store(
          task.limiters(), [&](Store& store) { return task.decide_here(store); }, ask);
    }
  } catch (const StoreError& error) {
    return task.answer_without(error);
  }
  return task.answer();
}

}  // namespace overlimit::python
