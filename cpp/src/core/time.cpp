#include "overlimit/time.hpp"

#include <ctime>
#include <stdexcept>
#include <string>

namespace overlimit {

Micros checked_instant(Micros instant) {
  if (instant < 0 || instant >= kMaxTime) {
    throw std::out_of_range("the clock must read an instant between 1970 and 2219, not " +
                            std::to_string(instant) + " us since the Unix epoch");
  }
  return instant;
}

Micros system_now() {
  timespec reading{};
  clock_gettime(CLOCK_REALTIME, &reading);
  return checked_instant(Micros{reading.tv_sec} * 1'000'000 + reading.tv_nsec / 1'000);
}

void ManualClock::set(Micros instant) { now_.store(checked_instant(instant), std::memory_order_release); }

void ManualClock::advance(Micros duration) {
  Micros before = now();
  const auto after = [&] {
    Micros sum = 0;
    return checked_instant(__builtin_add_overflow(before, duration, &sum) ? INT64_MAX : sum);
  };
  while (!now_.compare_exchange_weak(before, after())) {
  }
}

}  // namespace overlimit
