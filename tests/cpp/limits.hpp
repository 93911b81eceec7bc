// Limits by their numbers, as tests write them.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "overlimit/limit.hpp"
#include "times.hpp"

namespace overlimit::testing {

/// Without a name: unnamed.
inline Limit limit_of(std::string_view algorithm, std::span<const std::int64_t> numbers,
                      std::string_view name) {
  if (name.empty()) return {algorithm, numbers};
  return {algorithm, numbers, std::string(name)};
}

inline Limit fixed_window(std::int64_t limit, For period, std::string_view name = {}) {
  return limit_of("fixed_window", std::to_array<std::int64_t>({limit, period.micros(), 0}), name);
}

inline Limit epoch_window(std::int64_t limit, For period, std::string_view name = {}) {
  return limit_of("fixed_window", std::to_array<std::int64_t>({limit, period.micros(), 1}), name);
}

inline Limit sliding_window(std::int64_t limit, For period, For precision = 0, std::string_view name = {}) {
  return limit_of("sliding_window", std::to_array({limit, period.micros(), precision.micros()}), name);
}

inline Limit calendar_window(std::int64_t limit, std::shared_ptr<const Calendar> calendar) {
  return {"fixed_window", std::to_array<std::int64_t>({limit, 0, 2}), std::nullopt, std::move(calendar)};
}

inline Limit sliding_log(std::int64_t limit, For period, std::string_view name = {}) {
  return limit_of("sliding_log", std::to_array<std::int64_t>({limit, period.micros()}), name);
}

inline Limit sliding_window_counter(std::int64_t limit, For period, std::string_view name = {}) {
  return limit_of("sliding_window_counter", std::to_array<std::int64_t>({limit, period.micros()}), name);
}

/// `per_second` tokens a second, for whole parts of a million.
inline Limit token_bucket(std::int64_t burst, std::int64_t per_second, std::string_view name = {}) {
  return limit_of("token_bucket",
                  std::to_array<std::int64_t>({burst, kSecond, kSecond / per_second, 1, 1, 0, 0}), name);
}

/// One token is so many units, of which `refill` come back in a microsecond.
inline Limit bucket_of(std::int64_t burst, std::int64_t units, std::int64_t refill, std::int64_t debt = 0) {
  return {"token_bucket", std::to_array<std::int64_t>({burst, kSecond, units, refill, 1, 0, debt})};
}

/// `rate` tokens at once every `period`, in a phase of its own or in that of the epoch.
inline Limit interval_bucket(std::int64_t burst, std::int64_t rate, For period, bool since_epoch = false,
                             std::int64_t debt = 0) {
  return {"token_bucket", std::to_array<std::int64_t>(
                              {burst, period.micros(), 1, rate, period.micros(), since_epoch ? 1 : 0, debt})};
}

inline Limit leaky_bucket(std::int64_t rate, For period, std::int64_t capacity, std::string_view name = {}) {
  return limit_of("leaky_bucket", std::to_array<std::int64_t>({rate, period.micros(), capacity}), name);
}

inline Limit paced_bucket(std::int64_t rate, For period, std::int64_t capacity, std::int64_t burst) {
  return {"paced_leaky_bucket", std::to_array<std::int64_t>({rate, period.micros(), capacity, burst})};
}

}  // namespace overlimit::testing
