"""Fixed windows that follow a calendar: what they accept and refuse."""

from __future__ import annotations

from datetime import timedelta

import pytest

from overlimit.errors import InvalidLimit
from overlimit.limits import FixedWindow


@pytest.mark.parametrize("per", [60, 1, timedelta(days=1), "year", "days", "Day", "", None])
def test_take_a_unit(per):
    with pytest.raises(InvalidLimit, match=r"^per "):
        FixedWindow(1, per, start="calendar")


@pytest.mark.parametrize("start", ["first", "epoch"])
@pytest.mark.parametrize(
    ("argument", "arguments"),
    [
        ("per", {"per": "day"}),
        ("timezone", {"per": 60, "timezone": "Europe/Berlin"}),
        ("timezone", {"per": 60, "timezone": None}),
        ("week_start", {"per": 60, "week_start": 6}),
        ("week_start", {"per": 60, "week_start": None}),
        ("week_start", {"per": 60, "week_start": False}),
    ],
)
def test_alone_take_a_unit_a_time_zone_and_a_start_of_weeks(start, argument, arguments):
    with pytest.raises(InvalidLimit, match=f"^{argument} .*calendar"):
        FixedWindow(1, start=start, **arguments)


def test_may_be_ruled_out_by_their_defaults():
    assert FixedWindow(1, 60, start="first", timezone="UTC", week_start=0) == FixedWindow(1, 60)


@pytest.mark.parametrize("wrong", ["Europe/Atlantis", "", None, b"UTC", "../UTC", 5])
def test_refuse_an_unknown_time_zone_naming_it(wrong):
    with pytest.raises(InvalidLimit) as caught:
        FixedWindow(1, "day", start="calendar", timezone=wrong)
    assert str(caught.value).startswith("timezone ")
    assert repr(wrong) in str(caught.value)


@pytest.mark.parametrize("wrong", [-1, 7, 0.0, True, None, "mon"])
def test_refuse_another_day_of_the_week(wrong):
    with pytest.raises(InvalidLimit, match=r"^week_start "):
        FixedWindow(1, "week", start="calendar", week_start=wrong)
