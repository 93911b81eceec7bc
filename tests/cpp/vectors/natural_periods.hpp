// Natural periods in UTC.
#pragma once

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>

#include "overlimit/calendar.hpp"

namespace overlimit::testing {

/// The start of the period `steps` periods after the one that contains `now`.
inline Instant natural_start(const std::string& unit, int week_start, Instant now, int steps) {
  using namespace std::chrono;
  const sys_time<microseconds> instant{microseconds(now.micros())};
  const sys_days today = floor<days>(instant);
  const auto in_us = [](auto time) {
    return Instant(std::max<std::int64_t>(0, time_point_cast<microseconds>(time).time_since_epoch().count()));
  };
  if (unit == "second") return in_us(floor<seconds>(instant) + seconds(steps));
  if (unit == "minute") return in_us(floor<minutes>(instant) + minutes(steps));
  if (unit == "hour") return in_us(floor<hours>(instant) + hours(steps));
  if (unit == "day") return in_us(today + days(steps));
  if (unit == "week") {
    const auto gone = days((weekday(today).iso_encoding() - 1 + 7 - unsigned(week_start)) % 7);
    return in_us(today - gone + weeks(steps));
  }
  const year_month_day date{today};
  return in_us(sys_days((date.year() / date.month() + months(steps)) / 1));
}

inline std::shared_ptr<const Calendar> natural_periods(const std::string& unit, int week_start) {
  return std::make_shared<const Calendar>(
      Calendar{unit + " UTC " + std::to_string(week_start), [unit, week_start](Instant now) {
                 return Bounds{At(natural_start(unit, week_start, now, 0)),
                               At(natural_start(unit, week_start, now, 1)),
                               At(natural_start(unit, week_start, now, 2))};
               }});
}

}  // namespace overlimit::testing
