#include "store_calls.hpp"

#include <cstddef>
#include <cstdint>

#include "counters.hpp"
#include "store_task.hpp"
#include "waits.hpp"

namespace overlimit::python {

void count_latency(std::span<LimiterState* const> limiters, std::chrono::steady_clock::duration took) {
  const auto micros = std::chrono::ceil<std::chrono::microseconds>(took).count();
  for (LimiterState* limiter : limiters) limiter->stats.count_latency(Duration(micros));
  if (limiters.empty() || limiters.front()->counters_of_store == nullptr) return;
  CounterSlot& counters = *limiters.front()->counters_of_store;
  counters.add(place::kLatencies + place_of_latency(Duration(micros)));
  counters.add(place::kLatencyMicros, std::uint64_t(micros));
  counters.set(place::kBreaker, std::uint64_t(BreakerState::closed));  // unless a failure follows
}

void count_failure(std::span<LimiterState* const> limiters, const StoreError& error, BreakerState breaker) {
  for (LimiterState* limiter : limiters) ++limiter->stats.errors[std::size_t(error.kind())];
  if (limiters.empty() || limiters.front()->counters_of_store == nullptr) return;
  CounterSlot& counters = *limiters.front()->counters_of_store;
  counters.add(place::kErrors + std::size_t(error.kind()));
  counters.set(place::kBreaker, std::uint64_t(breaker));
  counters.set(place::kFailedAt, std::uint64_t(system_now().micros()) / 1'000'000);
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
