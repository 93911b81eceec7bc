// What metrics count in this process: numbers in slots, one for each policy with a limit, each policy and
// each store. Slots are never given up, so a counter never goes down. They lie in memory that a file may
// replace, where other processes read them even after this one was killed.
#pragma once

#include <Python.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "free_threading.hpp"
#include "overlimit/store.hpp"
#include "overlimit/time.hpp"

namespace overlimit::python {

/// The upper bounds of waits that are counted together; above the last one there is another place.
inline constexpr std::array<Duration, 12> kWaitBounds{
    Duration(1'000),      Duration(5'000),      Duration(10'000),     Duration(50'000),
    Duration(100'000),    Duration(500'000),    Duration(1'000'000),  Duration(5'000'000),
    Duration(10'000'000), Duration(30'000'000), Duration(60'000'000), Duration(300'000'000)};

/// Which slot: a kind, and what it is about in the words of the labels.
enum class SlotKind : char { limit = 'l', policy = 'p', store = 's' };

/// The places of the numbers in a slot, by its kind; overlimit.metrics reads them by the same places.
namespace place {
// Of a limit: decisions by source and status, and refusals in shadow. Those of on_error, which no limit
// binds, are with the first one.
inline constexpr std::size_t kStatuses = 4;
inline constexpr std::size_t kShadow = kSources * kStatuses;
// Of a policy.
inline constexpr std::size_t kCrowded = 0;
inline constexpr std::size_t kWaitsBegun = 1;
inline constexpr std::size_t kWaitMicros = 2;
inline constexpr std::size_t kWaits = 3;                                // and those that follow
inline constexpr std::size_t kUnits = kWaits + kWaitBounds.size() + 1;  // by what becomes of them
// Of a store.
inline constexpr std::size_t kErrors = 0;  // and those that follow
inline constexpr std::size_t kBreaker = 4;
inline constexpr std::size_t kLatencyMicros = 5;
inline constexpr std::size_t kLatencies = 6;  // and those that follow
inline constexpr std::size_t kCommands = 20;
inline constexpr std::size_t kRestored = 21;
inline constexpr std::size_t kFailedAt = 22;  // the last call that failed: seconds since the epoch
}  // namespace place

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

/// Adds the functions to the module; false with a Python exception set.
bool add_counters(PyObject* module);

}  // namespace overlimit::python
