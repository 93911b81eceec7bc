// One question of limiters to their store, counted by each of them.
#pragma once

#include <algorithm>
#include <chrono>
#include <span>

#include "limiter.hpp"
#include "on_error.hpp"
#include "overlimit/errors.hpp"
#include "overlimit/store.hpp"
#include "stats.hpp"
#include "waits.hpp"

namespace overlimit::python {

/// How long a question took, for stores that wait: others answer faster than a clock is read twice.
class Stopwatch {
 public:
  using Clock = std::chrono::steady_clock;
  explicit Stopwatch(std::span<Binding* const> asking) : asking_(asking) {}
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;
  /// With the GIL held, as it's what guards the counts.
  ~Stopwatch() {
    const auto duration = std::chrono::ceil<std::chrono::microseconds>(Clock::now() - start_).count();
    for (Binding* binding : asking_) binding->stats.count_latency(duration);
  }

 private:
  std::span<Binding* const> asking_;
  Clock::time_point start_ = Clock::now();
};

/// Runs an action of the store that these limiters share, without the GIL if it may wait.
template <class Action>
void ask_store(std::span<Binding* const> asking, const Action& action) {
  Store& store = *asking.front()->store;
  for (Binding* binding : asking) {
    notice_call(*binding);
    ++binding->stats.calls;
  }
  try {
    if (store.waits()) {
      const Stopwatch stopwatch(asking);
      without_gil([&](const Interrupted& interrupted) { action(store, interrupted); });
    } else {
      action(store, kInterrupted);
    }
  } catch (const StoreError& error) {
    for (Binding* binding : asking) ++binding->stats.errors[std::size_t(error.kind())];
    throw;
  }
  const auto was_cut_off = [](const Binding* binding) { return binding->is_cut_off; };
  if (std::ranges::any_of(asking, was_cut_off)) log_recovery(asking);
}

}  // namespace overlimit::python
