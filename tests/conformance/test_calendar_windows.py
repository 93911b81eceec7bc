"""Windows by the calendar: the natural periods of the oracle are right, and those of the stores the same."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlimit import FixedWindow

from .oracle.natural_periods import Calendar, wall_clock
from .strategies import DAY_US, SECOND_US, examples

UNITS = ("second", "minute", "hour", "day", "week", "month")

# Instants at which an offset changes, in seconds since 1970: what is special about them.
CHANGES = {
    "an hour ahead": ("Europe/Berlin", 1_711_846_800),
    "an hour back": ("Europe/Berlin", 1_729_990_800),
    "half an hour ahead": ("Australia/Lord_Howe", 1_728_142_200),
    "half an hour back": ("Australia/Lord_Howe", 1_712_415_600),
    "over midnight": ("America/Sao_Paulo", 1_541_300_400),
    "back over midnight": ("America/St_Johns", 1_162_693_860),
    "a day that is left out": ("Pacific/Apia", 1_325_239_200),
    "half an hour for good": ("Asia/Pyongyang", 1_525_446_000),
    "never": ("Asia/Kolkata", 1_700_000_000),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_window_ends_with_its_natural_period(build, clock, change):
    zone, changes_at = change
    for unit in UNITS:
        limiter = build(FixedWindow(1, unit, start="calendar", timezone=zone), name=unit)
        check_around(changes_at, limiter, clock, Calendar(unit, zone))


def check_around(changes_at, limiter, clock, calendar):
    """Every window of a limiter of one per period, around the change of an offset, is the calendar's."""
    seeded = random.Random(changes_at)
    near = [changes_at * SECOND_US + us for us in (-SECOND_US, -1, 0, 1, SECOND_US)]
    around = [changes_at * SECOND_US + seeded.randrange(-200_000, 200_000) * SECOND_US for _ in range(20)]
    for now in sorted(near + around):
        limiter.reset("a")
        clock.set(now / 1e6)
        _, end = calendar.period_of(now)
        decision = limiter.hit("a")
        assert decision
        assert round(decision.reset_after * 1e6) == end - now
        clock.set((end - 1) / 1e6)
        assert limiter.hit("a").status == "over"
        clock.set(end / 1e6)
        assert limiter.hit("a")


ZONES = {  # and a year to watch
    "UTC": 2026,
    "Europe/Berlin": 2027,
    "America/Sao_Paulo": 2018,  # skips a midnight
    "America/St_Johns": 2010,  # 00:01 becomes 23:01
    "America/Havana": 2026,  # 01:00 becomes 00:00
    "Africa/Cairo": 2026,
    "Asia/Beirut": 2026,
    "Asia/Kathmandu": 1986,  # skips a quarter of an hour from midnight on
    "Australia/Lord_Howe": 2026,  # half an hour of summer
    "Pacific/Apia": 2011,  # no December 30th
    "Antarctica/Casey": 2010,  # 02:00 becomes 23:00
    "America/Nuuk": 2026,
}


@pytest.mark.longer_in_prove
@pytest.mark.parametrize("zone", ZONES)
@examples(10)
@given(day=st.integers(0, 70 * 366), within=st.integers(0, DAY_US - 1), week_start=st.integers(0, 6))
def test_long_natural_periods_follow_each_other(zone, day, within, week_start):
    for unit in ("day", "week", "month"):
        calendar = Calendar(unit, zone, week_start)
        now = day * DAY_US + within
        start, end = calendar.period_of(now)
        assert start <= now < end
        assert calendar.period_of(start) == calendar.period_of(end - 1) == (start, end)
        assert calendar.period_of(end)[0] == end
        assert calendar.period_of(start - 1)[1] == start


@pytest.mark.parametrize(("zone", "year"), ZONES.items())
def test_a_day_begins_when_the_wall_clock_first_shows_it(zone, year):
    step = 1_800 * SECOND_US
    first = (year - 1970) * 1461 // 4 * DAY_US
    shown = wall_clock(first, zone).date()
    for instant in range(first, first + 366 * DAY_US, step):
        if wall_clock(instant, zone).date() > shown:
            shown = wall_clock(instant, zone).date()
            start, _ = Calendar("day", zone).period_of(instant)
            assert instant - step < start <= instant
            assert wall_clock(start, zone).date() == shown
            assert wall_clock(start - 1, zone).date() < shown
