// What metrics count in this process: numbers in slots, one for each policy with a limit, each policy and
// each store. Slots are never given up, so a counter never goes down. They lie in memory that a file may
// replace, where other processes read them even after this one was killed.
#pragma once

#include <Python.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "free_threading.hpp"
#include "overlimit/store.hpp"
#include "overlimit/time.hpp"

namespace overlimit::python {

/// The upper bounds of the latencies that are counted together; above the last one there is another place.
inline constexpr std::array<Duration, 13> kLatencyBounds{
    Duration(100),     Duration(200),     Duration(500),      Duration(1'000),  Duration(2'000),
    Duration(5'000),   Duration(10'000),  Duration(20'000),   Duration(50'000), Duration(100'000),
    Duration(200'000), Duration(500'000), Duration(1'000'000)};

/// The upper bounds of waits that are counted together; above the last one there is another place.
inline constexpr std::array<Duration, 12> kWaitBounds{
    Duration(1'000),      Duration(5'000),      Duration(10'000),     Duration(50'000),
    Duration(100'000),    Duration(500'000),    Duration(1'000'000),  Duration(5'000'000),
    Duration(10'000'000), Duration(30'000'000), Duration(60'000'000), Duration(300'000'000)};

/// Among the bounds, or behind the last.
inline std::size_t place_among(std::span<const Duration> bounds, Duration duration) {
  return std::size_t(std::ranges::lower_bound(bounds, duration) - bounds.begin());
}

// What Python calls the enumerators of Status, Source, StoreError::Kind and BreakerState.
inline constexpr std::array kStatusNames{"ok", "over", "locked", "never"};
inline constexpr std::array kSourceNames{"store", "local", "error", "refusal", "lease"};
inline constexpr std::array kFailureNames{"timeout", "unavailable", "config", "script"};
inline constexpr std::array kBreakerNames{"closed", "open", "half_open"};
static_assert(kSourceNames.size() == kSources);

/// Which slot: a kind, and what it is about in the words of the labels.
enum class SlotKind : char { limit = 'l', policy = 'p', store = 's' };

/// Numbers that lie side by side in the slots of a kind.
struct Counted {
  SlotKind kind;
  std::string_view name;
  std::size_t size = 1;
};

/// The layout of slots, in which the numbers of a kind follow each other: overlimit.metrics reads them by
/// these names, and those of stores are the statistics of limiters, too.
inline constexpr std::array kCounted{
    // Those of on_error, which no limit binds, are with the first one.
    Counted{SlotKind::limit, "decisions", kSources* kStatusNames.size()},  // by source and status
    Counted{SlotKind::limit, "shadow"},                                    // refusals
    Counted{SlotKind::policy, "crowded"},
    Counted{SlotKind::policy, "waits_begun"},
    Counted{SlotKind::policy, "wait_micros"},
    Counted{SlotKind::policy, "waits", kWaitBounds.size() + 1},
    Counted{SlotKind::policy, "granted"},  // units of leases, as redis::Units has them
    Counted{SlotKind::policy, "returned"},
    Counted{SlotKind::policy, "lapsed"},
    Counted{SlotKind::policy, "spent"},
    Counted{SlotKind::store, "errors", kFailureNames.size()},
    Counted{SlotKind::store, "breaker"},
    Counted{SlotKind::store, "latency_micros"},
    Counted{SlotKind::store, "latencies", kLatencyBounds.size() + 1},
    Counted{SlotKind::store, "commands"},
    Counted{SlotKind::store, "restored"},
    Counted{SlotKind::store, "failed_at"},  // the last call that failed: seconds since the epoch
};

/// Where numbers begin in their slot.
constexpr std::size_t place_of(const Counted& counted) {
  std::size_t place = 0;
  for (const Counted& each : kCounted) {
    if (each.name == counted.name) break;
    if (each.kind == counted.kind) place += each.size;
  }
  return place;
}

consteval std::size_t place_of(std::string_view name) {
  return place_of(*std::ranges::find(kCounted, name, &Counted::name));
}

struct CounterSlot {
  static constexpr std::size_t kKeyBytes = 256;
  static constexpr std::size_t kNumbers = 32;

  std::array<char, kKeyBytes>
      key;  ///< the kind and the labels, split by tabs; the first byte is written last
  std::array<std::uint64_t, kNumbers> numbers;

  /// Counts; threads that run at once lose nothing.
  void add(std::size_t place, std::uint64_t count = 1) {
#ifdef Py_GIL_DISABLED
    __atomic_fetch_add(&numbers[place], count, __ATOMIC_RELAXED);
#else
    numbers[place] += count;
#endif
  }
  /// The same by a thread that may not hold the GIL, for numbers that are counted in no other way.
  void add_anywhere(std::size_t place, std::uint64_t count) {
    __atomic_fetch_add(&numbers[place], count, __ATOMIC_RELAXED);
  }
  void set(std::size_t place, std::uint64_t number) {
    __atomic_store_n(&numbers[place], number, __ATOMIC_RELAXED);
  }
};

/// The slot of these labels, for as long as the process lives; when there are too many, that of all others.
/// Not on the path of a hit. Thread-safe.
CounterSlot& slot_of(SlotKind kind, std::string_view label, std::string_view limit = {});

/// Where numbers go that nobody reads.
CounterSlot& lost_counters();

/// What shows in the place of labels for which there is no room.
inline constexpr std::string_view kOther = "(other)";
/// What shows as the policy of a limiter without a name.
inline constexpr std::string_view kUnnamed = "(unnamed)";

/// Has Python open a file for the counters of a child whose parent has one: to be called before a limiter's
/// first call. PythonError.
void open_counters_file();

}  // namespace overlimit::python
