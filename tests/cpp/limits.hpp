// Limits by their numbers, as tests write them.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "overlimit/limit.hpp"

namespace overlimit::testing {

inline constexpr Micros kSecond = 1'000'000;
inline constexpr Micros kMinute = 60 * kSecond;

inline Limit fixed_window(std::int64_t limit, Micros period, std::optional<std::string> name = std::nullopt) {
  return {"fixed_window", std::to_array<std::int64_t>({limit, period, 0}), std::move(name)};
}

inline Limit epoch_window(std::int64_t limit, Micros period, std::optional<std::string> name = std::nullopt) {
  return {"fixed_window", std::to_array<std::int64_t>({limit, period, 1}), std::move(name)};
}

inline Limit sliding_window(std::int64_t limit, Micros period, Micros precision = 0,
                            std::optional<std::string> name = std::nullopt) {
  return {"sliding_window", std::to_array({limit, period, precision}), std::move(name)};
}

/// `per_second` tokens a second, for whole parts of a million.
inline Limit token_bucket(std::int64_t burst, std::int64_t per_second,
                          std::optional<std::string> name = std::nullopt) {
  return {"token_bucket", std::to_array<std::int64_t>({burst, kSecond, kSecond / per_second, 1}),
          std::move(name)};
}

}  // namespace overlimit::testing
