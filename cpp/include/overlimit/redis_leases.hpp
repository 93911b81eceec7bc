// Units that a Redis store charges early: where they are shared, and who hears what becomes of them.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "overlimit/time.hpp"

namespace overlimit::redis {

/// The longest that units may be charged early.
inline constexpr Duration kMaxLease{10'000'000};

/// Where the processes of a host lease as one: a name for a file in /dev/shm, or an absolute path.
struct LeaseIn {
  std::string name_or_path;
  mode_t mode = 0600;
  std::function<void(const std::string&)> warn{};  ///< called if it cannot be had
};

/// What becomes of units that are charged early. Spent ones are counted when their lease ends, or at once if
/// the processes of a host spend them.
enum class Units : std::uint8_t { granted, returned, lapsed, spent };

/// Hears of all such units of this process, by the name of their policy. Any thread calls it, under no lock.
using CountUnits = void (*)(std::string_view policy, Units what, std::uint64_t count) noexcept;
inline std::atomic<CountUnits> count_units{nullptr};

}  // namespace overlimit::redis
