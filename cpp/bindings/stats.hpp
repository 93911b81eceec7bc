// What a limiter counts of its calls, in this process. Each number is counted by itself, without a lock.
#pragma once

#include <Python.h>

#include <algorithm>
#include <array>
#include <span>

#include "free_threading.hpp"
#include "overlimit/errors.hpp"
#include "overlimit/store.hpp"

namespace overlimit::python {

struct LimiterState;

inline constexpr std::size_t kKindsOfFailure = 4;

/// "timeout", ...: as stats() and the log call it.
const char* name_of(StoreError::Kind failure);

/// The upper bounds of the latencies that are counted together; above the last one there is another place.
inline constexpr std::array<Duration, 13> kLatencyBounds{
    Duration(100),     Duration(200),     Duration(500),      Duration(1'000),  Duration(2'000),
    Duration(5'000),   Duration(10'000),  Duration(20'000),   Duration(50'000), Duration(100'000),
    Duration(200'000), Duration(500'000), Duration(1'000'000)};

/// Among the bounds, or behind the last.
inline std::size_t place_of_latency(Duration duration) {
  return std::size_t(std::ranges::lower_bound(kLatencyBounds, duration) - kLatencyBounds.begin());
}

struct Stats {
  using Count = Shared<std::uint64_t>;
  Count calls = 0;
  Count local = 0;
  Count crowded = 0;
  Count leased = 0;
  Count refusals = 0;
  Count asked = 0;
  Count restored = 0;
  std::array<Count, kKindsOfFailure> errors{};
  std::array<Count, kLatencyBounds.size() + 1> latencies{};
  void count_latency(Duration duration);
  void clear();
};

/// limiter.stats(): a new dict. PythonError when there's no memory.
PyObject* stats_dict(const Stats& stats, BreakerState breaker, const LeaseCounts& leased);

/// Limiter._lease_bounds, METH_NOARGS.
PyObject* lease_bounds(PyObject* self, PyObject* nothing);

/// Counts who has decided, how many commands that took and what it has restored, once for each limiter.
void count_basis(std::span<LimiterState* const> limiters, const Basis& basis);
/// Of a call without an answer, only what it has restored.
void count_restored(std::span<LimiterState* const> limiters, const Basis& basis);

/// Counts a decision once for each limiter that has a crowded charge; at a first one it warns of the store.
void count_crowded(std::span<LimiterState* const> limiters, std::span<const Charge> charges,
                   ChargeBits crowded, PyObject* store);

}  // namespace overlimit::python
