// How limiters call the store that they share: each of them counts the call.
#pragma once

#include <Python.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <span>

#include "limiter.hpp"
#include "overlimit/errors.hpp"
#include "overlimit/store.hpp"
#include "waits.hpp"

namespace overlimit::python {

void count_latency(std::span<LimiterState* const> limiters, std::chrono::steady_clock::duration took);

/// How long a call took, for stores that wait: others answer in less time than reading a clock twice takes.
class Stopwatch : NonCopyable {
 public:
  using Clock = std::chrono::steady_clock;
  explicit Stopwatch(std::span<LimiterState* const> limiters) : limiters_(limiters) {}
  /// Runs with the GIL held, which guards the counts where there is one.
  ~Stopwatch() { count_latency(limiters_, Clock::now() - start_); }

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

/// Runs an action with the GIL held, and says in a MemoryError which store has no room.
template <class Action>
void naming_full_store(const LimiterState& limiter, const Action& action) {
  try {
    action();
  } catch (const OutOfMemory& error) {
    raise(PyExc_MemoryError, "%R has %s", limiter.store_object.get(), error.what());
  }
}

inline void count_call(std::span<LimiterState* const> limiters) {
  for (LimiterState* limiter : limiters) {
    notice_call(*limiter);
    ++limiter->stats.calls;
  }
}

/// With the breaker as the call left it.
void count_failure(std::span<LimiterState* const> limiters, const StoreError& error, BreakerState breaker);

/// After a call that did not fail, for which nobody may have been asked.
inline void count_answer(std::span<LimiterState* const> limiters) {
  const auto is_back = [](const LimiterState* limiter) -> bool {
    return limiter->is_cut_off &&
           limiter->store->answers() != std::optional<std::uint64_t>(limiter->answers_before);
  };
  if (std::ranges::any_of(limiters, is_back)) [[unlikely]]
    log_recovery(limiters);
}

/// Runs `ask` with the store that these limiters share, and counts it, unless `decide_here` has decided.
template <class DecideHere, class Ask>
void ask_and_count(std::span<LimiterState* const> limiters, const DecideHere& decide_here, const Ask& ask) {
  count_call(limiters);
  try {
    if (decide_here(*limiters.front()->store)) return;
    naming_full_store(*limiters.front(), [&] { ask(*limiters.front()->store); });
  } catch (const StoreError& error) {
    count_failure(limiters, error, limiters.front()->store->breaker());
    throw;
  }
  count_answer(limiters);
}

/// Runs an action on the store that these limiters share, unless `decide_here` has decided, and without the
/// GIL if it may wait. The action is run again if it turns out that it has to, so it must not have done a
/// part of its work by then.
template <class DecideHere, class Action>
void ask_store(std::span<LimiterState* const> limiters, const DecideHere& decide_here, const Action& action) {
  ask_and_count(limiters, decide_here, [&](Store& store) {
    if (store.waits_seldom()) {
      ask_store_that_waits_seldom(store, action);
    } else if (store.waits()) {
      const Stopwatch stopwatch(limiters);
      without_gil([&](const Interrupted& interrupted) { action(store, interrupted); });
    } else {
      action(store, kInterrupted);
    }
  });
}

/// The same for several calls, some of which may be done when another has to wait: run once, without the GIL.
template <class Action>
void ask_store_for_many(std::span<LimiterState* const> limiters, const Action& action) {
  const auto never = [](Store&) { return false; };
  ask_and_count(limiters, never, [&](Store& store) {
    std::optional<Stopwatch> stopwatch;
    if (!store.waits_seldom()) stopwatch.emplace(limiters);
    without_gil([&](const Interrupted& interrupted) { action(store, interrupted); });
  });
}

}  // namespace overlimit::python
