// A calendar's bounds: those that pass lie around their instant, and a window between them never admits more
// than its limit, whatever record is found.
#include "overlimit/calendar.hpp"

#include "limits.hpp"
#include "overlimit/pair.hpp"
#include "redis/packing.hpp"
#include "target.hpp"

namespace overlimit::fuzz {
namespace {

using testing::packed;

constexpr std::int64_t kLimit = 3;

void check_window(const Limit& limit, const Bounds& bounds, Instant now, const FoundRecord& found) {
  check(limit.holds_at(now), "a limit holds at the instant for which it was made");
  const ExaminedPair pair = examine(limit, &found, now, 1);
  check(pair.verdict.status == Status::ok || pair.has_record, "a caller without a record is admitted");
  if (pair.verdict.status != Status::ok) return;
  const ChargedPair written = charge(limit, pair, 1);
  check(written.state[2] >= 1 && written.state[2] <= kLimit, "no more is charged than the limit");
  if (!pair.has_record) {
    check(At(written.state[0]) >= bounds[0] && At(written.state[1]) <= bounds[2], "a new window is a period");
    check(At(written.state[0]) <= now && now < At(written.state[1]), "and the instant lies in it");
  }
}

void read_bounds(std::string_view input) {
  Bytes bytes(input);
  const auto now = At(Micros(bytes.take<std::uint64_t>() % std::uint64_t(kMaxTime.micros())));
  const Bounds bounds{bytes.take<Instant>(), bytes.take<Instant>(), bytes.take<Instant>()};
  if (!are_around(bounds, now)) return;
  check(bounds[0] >= 0 && bounds[0] <= now && now < bounds[1] && bounds[1] < bounds[2] && bounds[2] < kExact,
        "bounds lie around their instant, and are exact in Lua too");
  const auto calendar =
      std::make_shared<const Calendar>(Calendar{"fuzzed", [bounds](Instant) { return bounds; }});
  const Limit limit = testing::calendar_window(kLimit, calendar).dated(now);
  Header header{bytes.take<Micros>(), bytes.take<Micros>(), bytes.take<std::int64_t>()};
  for (std::int64_t& word : header) word &= kExact - 1;
  check_window(limit, bounds, now, {bytes.take<Instant>(), header, {}});
}

std::vector<std::string> bounds_around_instants() {
  const Micros day = 24 * testing::kHour;
  const Micros now = 1'700'000'000'000'000;
  const Micros start = now - now % day;
  return {packed({now, start, start + day, start + 2 * day, start, start + day, 2, start + day}),
          packed({now, start, start + day, start + 2 * day, 0, 0, 0, 0}),
          packed({now, start + day, start, start + 2 * day, start, start + day, 9, start + day})};
}

const Registration kCalendar("calendar", {read_bounds, bounds_around_instants});

}  // namespace
}  // namespace overlimit::fuzz
