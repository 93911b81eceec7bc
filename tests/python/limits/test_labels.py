"""What a limit is called: by its name, or by what it is."""

from __future__ import annotations

from fractions import Fraction

import pytest

from overlimit.http.answering.fields import Item, policy_field
from overlimit.limits import (
    FixedWindow,
    LeakyBucket,
    SlidingLog,
    SlidingWindow,
    SlidingWindowCounter,
    TokenBucket,
)

from .kinds import EACH


@pytest.mark.parametrize(
    ("limit", "label"),
    [
        (SlidingWindow(120, 60), "120-per-60s"),
        (FixedWindow(1, 0.25), "1-per-0.25s"),
        (FixedWindow(1, 1e-6), "1-per-0.000001s"),
        (FixedWindow(10, 100), "10-per-100s"),
        (TokenBucket(10, burst=20), "10-per-1s-burst-20"),
        (TokenBucket(0.29), "0.29-per-1s-burst-1"),
        (FixedWindow(1, 60, name="login.ip"), "login.ip"),
        (FixedWindow(9, "day", start="calendar"), "9-per-day"),
        (FixedWindow(9, "hour", start="calendar", timezone="Asia/Gaza"), "9-per-hour-Asia.Gaza"),
        (SlidingLog(120, 60), "120-per-60s"),
        (SlidingWindowCounter(120, 60), "120-per-60s"),
        (LeakyBucket(10, 60, capacity=5), "10-per-60s-queue-5"),
    ],
)
def test_a_label_is_the_name_or_says_it_all(limit, label):
    assert limit.label == label


@EACH
def test_a_label_can_stand_in_a_header_and_a_key(limit):
    assert 1 <= len(limit.label) <= 64
    assert limit.label.isascii()
    assert all(c.isalnum() or c in "_.-" for c in limit.label)


def test_of_extreme_buckets_can_stand_in_a_header():
    longest = (2**49 - 1) / 1e6
    for limit in (
        LeakyBucket(1, longest, capacity=2**53 - 2),
        TokenBucket(1, longest, burst=2**53 - 1, refill="interval"),
    ):
        assert policy_field([Item(limit.label, limit.quota, limit.window)]) == (
            f'"{limit.label}";q={min(limit.quota, 10**15 - 1)};w=9007199255'
        )


def test_even_an_extreme_label_is_a_label():
    for limit in (
        SlidingWindow(2**53 - 1, (2**49 - 1) / 1e6),
        TokenBucket(2**53 - 1, 1e-6),
        TokenBucket(2**80, 2**49 / 1e6, burst=2**53 - 1),
        TokenBucket(Fraction(1, 10**9), per=1),
        LeakyBucket(2**53 - 2, (2**49 - 1) / 1e6, capacity=1),
        LeakyBucket(1, (2**49 - 1) / 1e6, capacity=2**53 - 2),
        FixedWindow(2**53 - 1, "second", start="calendar", timezone="America/Argentina/ComodRivadavia"),
        FixedWindow(1, "month", start="calendar", timezone="Etc/GMT+12"),
        FixedWindow(1, "week", start="calendar", timezone="America/Port-au-Prince", week_start=3),
    ):
        assert len(limit.label) <= 64
        assert all(c.isalnum() or c in "_.-" for c in limit.label)
