"""Where windows and intervals may start."""

from __future__ import annotations

import pytest

from overlimit.errors import InvalidLimit
from overlimit.limits import (
    FixedWindow,
    LeakyBucket,
    SlidingLog,
    SlidingWindow,
    SlidingWindowCounter,
    TokenBucket,
)

from .kinds import queueless
from .token_buckets import INTERVALS


@pytest.mark.parametrize("start", ["", "First", "day", None, 0, True, ["first"], b"epoch"])
def test_of_a_window_is_first_epoch_or_calendar(start):
    for per in (1, "day"):
        with pytest.raises(InvalidLimit, match=r"^start "):
            FixedWindow(1, per, start=start)


@pytest.mark.parametrize("unit", ["second", "minute", "hour", "day", "week", "month"])
@pytest.mark.parametrize(
    "kind", [FixedWindow, SlidingWindow, SlidingLog, SlidingWindowCounter, TokenBucket, queueless]
)
def test_a_calendar_unit_where_seconds_are_expected_says_what_to_write(kind, unit):
    with pytest.raises(InvalidLimit) as error:
        kind(10, unit)
    written = f'FixedWindow(limit, "{unit}", start="calendar")'
    assert str(error.value).startswith("per must be a number of seconds or a timedelta")
    assert str(error.value).endswith(f"write {written}")
    assert eval(written, {"FixedWindow": FixedWindow, "limit": 10}).per == unit


@pytest.mark.parametrize("text", ["days", "60", "1 minute", "", "Day"])
def test_other_texts_are_no_seconds_either(text):
    with pytest.raises(InvalidLimit, match=r"^per must be a number of seconds or a timedelta, such as 60"):
        FixedWindow(10, text)


def test_whatever_follows_the_first_two_is_given_by_name():
    for build in (
        lambda: FixedWindow(10, 60, "epoch"),
        lambda: SlidingWindow(10, 60, 1),
        lambda: TokenBucket(10, 60, 20),
        lambda: LeakyBucket(10, 60, 20),
    ):
        with pytest.raises(TypeError, match=r"takes 2 arguments by position .* write the others by name, as"):
            build()


@INTERVALS
@pytest.mark.parametrize("start", ["", "First", "calendar", None, 0, True, ["first"]])
def test_of_a_bucket_is_first_or_epoch(refill, start):
    with pytest.raises(InvalidLimit, match=r"^start "):
        TokenBucket(1, 1, refill=refill, start=start)


def test_epoch_of_a_bucket_needs_intervals():
    with pytest.raises(InvalidLimit, match=r"^start='epoch'.* continuous"):
        TokenBucket(1, 1, start="epoch")
