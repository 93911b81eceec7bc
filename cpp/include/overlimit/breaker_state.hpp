// The state of a circuit breaker.
#pragma once

#include <cstdint>

namespace overlimit {

/// open: calls fail at once, except for one probe at a time; half_open: a probe is under way.
enum class BreakerState : std::uint8_t { closed, open, half_open };

}  // namespace overlimit
