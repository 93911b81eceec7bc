"""The limit per period: its document's own traces, and none of the flaws that were found in it."""

from __future__ import annotations

import datetime
from collections import Counter as Tally
from zoneinfo import ZoneInfo

import pytest

from overlimit.recipes import PeriodLimit, PeriodState

ALLOWED, HIT_QUOTA, OVER_QUOTA = PeriodState.ALLOWED, PeriodState.HIT_QUOTA, PeriodState.OVER_QUOTA


@pytest.fixture
def berlin(clock):
    """Return a function that moves the clock to a local time in Berlin."""

    def move(*when, microseconds=0):
        local = datetime.datetime(*when, tzinfo=ZoneInfo("Europe/Berlin"))
        clock.set(int(local.timestamp()))
        clock.advance(microseconds / 1e6)

    return move


class TestPeriodLimit:
    @pytest.mark.parametrize("align", [False, True])
    def test_100_takes_of_a_quota_of_5(self, make, align):
        limiter = make(PeriodLimit, 60, 5, align=align)
        taken = [limiter.take("a") for _ in range(100)]
        assert taken == [ALLOWED] * 4 + [HIT_QUOTA] + [OVER_QUOTA] * 95
        assert Tally(limiter.take("b") for _ in range(100)) == {ALLOWED: 4, HIT_QUOTA: 1, OVER_QUOTA: 95}

    def test_the_only_one_of_a_quota_of_1_is_allowed_and_a_quota_of_0_is_over(self, make):
        one, none = make(PeriodLimit, 60, 1), make(PeriodLimit, 60, 0)
        assert [one.take("a"), one.take("a")] == [ALLOWED, OVER_QUOTA]
        assert [none.take("a"), none.take("a")] == [OVER_QUOTA, OVER_QUOTA]

    def test_the_states_are_the_published_numbers(self):
        assert {state.name: int(state) for state in PeriodState} == {
            "UNKNOWN": 0,
            "ALLOWED": 1,
            "HIT_QUOTA": 2,
            "OVER_QUOTA": 3,
        }

    @pytest.mark.parametrize(
        ("period", "inside", "end"),
        [
            (1, (2023, 5, 17, 14, 30, 12), (2023, 5, 17, 14, 30, 13)),
            (60, (2023, 5, 17, 14, 30, 12), (2023, 5, 17, 14, 31)),
            (3600, (2023, 5, 17, 14, 30, 12), (2023, 5, 17, 15)),
            (86400, (2023, 5, 17, 14, 30, 12), (2023, 5, 18)),
            (604800, (2023, 5, 17, 14, 30, 12), (2023, 5, 22)),  # a Wednesday; Monday the 22nd
            (86400, (2023, 3, 26, 0, 0, 0), (2023, 3, 27)),  # of 23 hours
            (86400, (2023, 10, 29, 0, 0, 0), (2023, 10, 30)),  # of 25 hours
            (604800, (2023, 10, 28, 23, 0, 0), (2023, 10, 30)),
        ],
    )
    def test_an_aligned_period_ends_on_the_local_calendar(self, make, berlin, period, inside, end):
        limiter = make(PeriodLimit, period, 1, align=True, timezone="Europe/Berlin")
        berlin(*inside)
        assert [limiter.take("a"), limiter.take("a")] == [ALLOWED, OVER_QUOTA]
        berlin(*end, microseconds=-1)
        assert limiter.take("a") == OVER_QUOTA
        berlin(*end)
        assert [limiter.take("a"), limiter.take("a")] == [ALLOWED, OVER_QUOTA]

    @pytest.mark.parametrize("period", [2, 59, 61, 1.5, 7200, 604801, 2592000])
    def test_other_periods_have_no_calendar(self, make, period):
        assert make(PeriodLimit, period, 1).take("a") == ALLOWED
        with pytest.raises(ValueError, match="period"):
            make(PeriodLimit, period, 1, align=True)
