// Times as tests write them: whole microseconds, and an instant is so long after the epoch.
#pragma once

#include <compare>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <ostream>
#include <vector>

#include "overlimit/penalty.hpp"
#include "overlimit/time.hpp"

namespace overlimit {

using Micros = std::int64_t;

constexpr bool operator==(Duration a, Micros b) { return a.micros() == b; }
constexpr auto operator<=>(Duration a, Micros b) { return a.micros() <=> b; }
constexpr bool operator==(Instant a, Micros b) { return a.micros() == b; }
constexpr auto operator<=>(Instant a, Micros b) { return a.micros() <=> b; }
constexpr Duration operator+(Duration a, Micros b) { return a + Duration(b); }
constexpr Duration operator-(Duration a, Micros b) { return a - Duration(b); }
constexpr Instant operator+(Instant a, Micros b) { return a + Duration(b); }
constexpr Instant operator+(Micros a, Duration b) { return Instant(a) + b; }
constexpr Instant operator-(Instant a, Micros b) { return a - Duration(b); }

inline void PrintTo(Duration duration, std::ostream* out) { *out << duration.micros() << " us"; }
inline void PrintTo(Instant instant, std::ostream* out) { *out << "at " << instant.micros() << " us"; }

/// An instant and a duration, where they are asked for.
struct At : Instant {
  constexpr At(Micros micros) : Instant(micros) {}
  constexpr At(Instant instant) : Instant(instant) {}
};
struct For : Duration {
  constexpr For(Micros micros) : Duration(micros) {}
  constexpr For(Duration duration) : Duration(duration) {}
};

namespace testing {

inline constexpr Micros kSecond = 1'000'000;
inline constexpr Micros kMinute = 60 * kSecond;
inline constexpr Micros kHour = 60 * kMinute;

inline std::vector<Duration> durations(std::initializer_list<For> all) { return {all.begin(), all.end()}; }

inline std::vector<Instant> instants(std::initializer_list<At> all) { return {all.begin(), all.end()}; }

inline Penalty penalty(std::initializer_list<For> levels, bool extend = false,
                       std::optional<For> forget_after = std::nullopt) {
  return {durations(levels), extend, forget_after};
}

}  // namespace testing
}  // namespace overlimit
