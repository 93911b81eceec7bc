// How limiters call the store that they share: each of them counts the call.
#pragma once

#include <Python.h>

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

/// How long a call took, for stores that wait: others answer in less time than reading a clock twice takes.
class Stopwatch {
 public:
  using Clock = std::chrono::steady_clock;
  explicit Stopwatch(std::span<LimiterState* const> limiters) : limiters_(limiters) {}
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;
  /// Runs with the GIL held, which guards the counts.
  ~Stopwatch() {
    const auto duration = std::chrono::ceil<std::chrono::microseconds>(Clock::now() - start_).count();
    for (LimiterState* limiter : limiters_) limiter->stats.count_latency(duration);
  }

 private:
  std::span<LimiterState* const> limiters_;
  Clock::time_point start_ = Clock::now();
};

inline const Interrupted kDontWait = DontWait{};

/// Keeps the GIL where the store need not wait, since giving it up takes as long as a call.
template <class Action>
void ask_store_that_waits_seldom(Store& store, const Action& action) {
  try {
    return action(store, kDontWait);
  } catch (const WouldWait&) {
  }
  without_gil([&](const Interrupted& interrupted) { action(store, interrupted); });
}

/// Runs an action on the store that these limiters share, without the GIL if it may wait.
template <class Action>
void ask_store(std::span<LimiterState* const> limiters, const Action& action) {
  Store& store = *limiters.front()->store;
  for (LimiterState* limiter : limiters) {
    notice_call(*limiter);
    ++limiter->stats.calls;
  }
  try {
    if (store.waits_seldom()) {
      ask_store_that_waits_seldom(store, action);
    } else if (store.waits()) {
      const Stopwatch stopwatch(limiters);
      without_gil([&](const Interrupted& interrupted) { action(store, interrupted); });
    } else {
      action(store, kInterrupted);
    }
  } catch (const StoreError& error) {
    for (LimiterState* limiter : limiters) ++limiter->stats.errors[std::size_t(error.kind())];
    throw;
  }
  const auto was_cut_off = [](const LimiterState* limiter) { return limiter->is_cut_off; };
  if (std::ranges::any_of(limiters, was_cut_off)) log_recovery(limiters);
}

}  // namespace overlimit::python
