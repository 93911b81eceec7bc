// Limits by their numbers, as tests write them.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "overlimit/limit.hpp"

namespace overlimit::testing {

inline constexpr Micros kSecond = 1'000'000;
inline constexpr Micros kMinute = 60 * kSecond;

/// Without a name: unnamed.
inline Limit limit_of(std::string_view algorithm, std::span<const std::int64_t> numbers,
                      std::string_view name) {
  if (name.empty()) return {algorithm, numbers};
  return {algorithm, numbers, std::string(name)};
}

inline Limit fixed_window(std::int64_t limit, Micros period, std::string_view name = {}) {
  return limit_of("fixed_window", std::to_array<std::int64_t>({limit, period, 0}), name);
}

inline Limit epoch_window(std::int64_t limit, Micros period, std::string_view name = {}) {
  return limit_of("fixed_window", std::to_array<std::int64_t>({limit, period, 1}), name);
}

inline Limit sliding_window(std::int64_t limit, Micros period, Micros precision = 0,
                            std::string_view name = {}) {
  return limit_of("sliding_window", std::to_array({limit, period, precision}), name);
}

/// `per_second` tokens a second, for whole parts of a million.
inline Limit token_bucket(std::int64_t burst, std::int64_t per_second, std::string_view name = {}) {
  return limit_of("token_bucket", std::to_array<std::int64_t>({burst, kSecond, kSecond / per_second, 1}),
                  name);
}

}  // namespace overlimit::testing
