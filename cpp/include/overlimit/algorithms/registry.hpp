// The algorithms there are. A new one is its header, its include and its place in the list below; the order
// is canonical (it orders records and scripts), so new ones go last.
#pragma once

#include <variant>

#include "overlimit/algorithms/fixed_window.hpp"
#include "overlimit/algorithms/leaky_bucket.hpp"
#include "overlimit/algorithms/sliding_log.hpp"
#include "overlimit/algorithms/sliding_window.hpp"
#include "overlimit/algorithms/sliding_window_counter.hpp"
#include "overlimit/algorithms/token_bucket.hpp"

namespace overlimit {

using Algorithm =
    std::variant<FixedWindow, SlidingWindow, TokenBucket, SlidingLog, SlidingWindowCounter, LeakyBucket>;

}  // namespace overlimit
