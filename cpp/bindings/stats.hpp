// What a limiter counts of its calls, in this process, for its statistics and for metrics. Each number is
// counted by itself, without a lock.
#pragma once

#include <Python.h>

#include <array>
#include <span>

#include "counters.hpp"
#include "overlimit/errors.hpp"
#include "overlimit/store.hpp"

namespace overlimit::python {

struct LimiterState;

struct Stats {
  using Count = Shared<std::uint64_t>;
  Count calls = 0;
  Count local = 0;
  Count crowded = 0;
  Count leased = 0;
  Count refusals = 0;
  std::array<Count, place_of("failed_at")> of_store{};  ///< by their places in the slot of a store
  void clear();
};

/// limiter.stats(): a new dict, which Python makes. PythonError.
Object stats_of(const LimiterState& limiter, BreakerState breaker);

/// Finds where its present policy counts for metrics, and its store if that can fail. PythonError.
void find_counters(LimiterState& limiter);
/// Limiter._count_wait
void count_wait(LimiterState& limiter, PyObject* microseconds);

/// Counts in the statistics of these limiters, and for metrics of their store if that can fail.
void count_of_store(std::span<LimiterState* const> limiters, std::size_t place, std::uint64_t count = 1);

/// Counts who has decided, how many commands that took and what it has restored, once for each limiter.
void count_basis(std::span<LimiterState* const> limiters, const Basis& basis);
/// Of a call without an answer, only what it has restored.
void count_restored(std::span<LimiterState* const> limiters, const Basis& basis);

/// Counts a decision once for each limiter that has a crowded charge; at a first one it warns of the store.
void count_crowded(std::span<LimiterState* const> limiters, std::span<const Charge> charges,
                   ChargeBits crowded, PyObject* store);

}  // namespace overlimit::python
