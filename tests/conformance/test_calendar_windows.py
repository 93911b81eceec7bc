"""Windows by the calendar, around every kind of change of a zone's offset, as the oracle has them."""

from __future__ import annotations

import random

import pytest

from overlimit import FixedWindow

from .oracle.natural_periods import Calendar

SECOND_US = 1_000_000
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
