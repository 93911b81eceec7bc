// Checks of the numbers of limits, made when a limit is built. All throw InvalidLimit naming
// the argument, what it must be and what it was.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "overlimit/time.hpp"

namespace overlimit::checks {

/// `rule` completes the sentence "limit must be ...".
void require(bool holds, std::string_view argument, std::int64_t value, std::string_view rule);
void require_numbers(std::span<const std::int64_t> numbers, std::size_t count, std::string_view algorithm);
void require_count(std::string_view argument, std::int64_t value);
void require_period(std::string_view argument, std::int64_t value);

}  // namespace overlimit::checks
