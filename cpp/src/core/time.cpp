#include "overlimit/time.hpp"

#include <ctime>
#include <stdexcept>
#include <string>

namespace overlimit {

Instant checked_instant(Instant instant) {
  if (instant < Instant{} || instant >= kMaxTime) {
    throw std::out_of_range("the clock must read an instant between 1970 and 2219, not " +
                            std::to_string(instant.micros()) + " us since the Unix epoch");
  }
  return instant;
}

Instant system_now() {
  timespec reading{};
  clock_gettime(CLOCK_REALTIME, &reading);
  return checked_instant(Instant(reading.tv_sec * 1'000'000 + reading.tv_nsec / 1'000));
}

void ManualClock::set(Instant instant) { now_.store(checked_instant(instant), std::memory_order_release); }

void ManualClock::advance(Duration duration) {
  Instant before = now();
  const auto moved = [&] {
    std::int64_t after = 0;
    const bool overflows = __builtin_add_overflow(before.micros(), duration.micros(), &after);
    return checked_instant(Instant(overflows ? INT64_MAX : after));
  };
  while (!now_.compare_exchange_weak(before, moved())) {
  }
}

}  // namespace overlimit
