"""Periods of a zone's calendar against a model that looks at its clocks."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlimit.simulation import Events, replay

# Zones whose clocks change by an hour, by half of one, over midnight in both ways, and which skip a day.
PLACES = [
    ("Europe/Berlin", "2026-03-28"),
    ("Europe/Berlin", "2026-10-24"),
    ("Australia/Lord_Howe", "2026-04-04"),
    ("Australia/Lord_Howe", "2026-10-03"),
    ("America/Havana", "2026-10-31"),
    ("America/Santiago", "2026-09-05"),
    ("Pacific/Apia", "2011-12-29"),
    ("Asia/Kathmandu", "2026-02-28"),
    ("UTC", "2026-12-30"),
]
STEP = 900  # changes of these clocks are at quarters of an hour
HOUR, DAY = 3600, 86_400


def shown(zone, second):
    """Return what the clocks of a zone show, without the zone."""
    return datetime.fromtimestamp(second, ZoneInfo(zone)).replace(tzinfo=None)


@cache
def beginning(zone, day):
    """Return the first instant at which clocks show this day or a later one."""
    about = int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp())
    return next(at for at in range(about - 2 * DAY, about + 2 * DAY, STEP) if shown(zone, at).date() >= day)


def first_day(day, unit):
    if unit == "month":
        return day.replace(day=1)
    return day - timedelta(day.weekday()) if unit == "week" else day


def following(day, unit):
    if unit == "month":
        return (day + timedelta(31)).replace(day=1)
    return day + timedelta(7 if unit == "week" else 1)


def calendar_period(zone, second, unit):
    """Return where the period of days that an instant is in begins; clocks may show a day that has ended."""
    days = [first_day(shown(zone, second).date() + timedelta(k), unit) for k in (-1, 0, 1)]
    return max(start for start in (beginning(zone, day) for day in days) if start <= second)


def hour(zone, second):
    """Return where the hour begins: on the clock, unless clocks have changed since by a part of one."""
    at = second // STEP * STEP
    while shown(zone, at).minute and shown(zone, at) - shown(zone, at - STEP) == timedelta(seconds=STEP):
        at -= STEP
    return at


def begins(zone, second, every):
    """Return when the period that an instant is in begins."""
    if every == "hour":
        return hour(zone, second)
    if isinstance(every, str):
        return calendar_period(zone, second, every)
    if DAY % every:
        return second // every * every
    midnight = calendar_period(zone, second, "day")
    return midnight + (second - midnight) // every * every


@settings(max_examples=60)
@given(
    st.sampled_from(PLACES),
    st.sampled_from(["hour", "day", "week", "month", 900, HOUR, 4 * HOUR, 12 * HOUR, DAY, 5 * HOUR, 100_000]),
    st.lists(st.integers(0, 4 * DAY // 60), min_size=1, max_size=20),
)
def test_an_event_is_in_the_period_that_the_clocks_of_a_zone_say(place, every, minutes):
    zone, day = place
    start = beginning(zone, date.fromisoformat(day))
    seconds = [start + 60 * minute for minute in minutes]
    table = replay(Events(seconds, ["a"] * len(seconds)), "1/minute").by_time(every, zone)
    rows = [int(time.timestamp()) for time in table.index]
    sent = dict(zip(rows, table["sent"].tolist(), strict=True))
    expected = [begins(zone, second, every) for second in seconds]
    assert {row: count for row, count in sent.items() if count} == {
        row: expected.count(row) for row in set(expected)
    }
    if every != 100_000:  # whose periods begin at no quarter of an hour
        assert rows == sorted({begins(zone, at, every) for at in range(rows[0], rows[-1] + 1, STEP)})


@pytest.mark.parametrize(("zone", "day"), PLACES)
def test_the_last_row_of_a_day_ends_at_the_next_midnight(zone, day):
    midnight = beginning(zone, date.fromisoformat(day) + timedelta(1))
    after = beginning(zone, date.fromisoformat(day) + timedelta(2))
    table = replay(Events([midnight, after], ["a"] * 2), "1/minute").by_time(8 * HOUR, zone)
    rows = [int(time.timestamp()) for time in table.index]
    assert rows == [*range(midnight, after, 8 * HOUR), after]
