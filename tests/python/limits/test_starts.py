"""Where windows and intervals may start."""

from __future__ import annotations

import pytest

from overlimit.errors import InvalidLimit
from overlimit.limits import FixedWindow, TokenBucket

from .token_buckets import INTERVALS


@pytest.mark.parametrize("start", ["", "First", "day", None, 0, True, ["first"], b"epoch"])
def test_of_a_window_is_first_epoch_or_calendar(start):
    for per in (1, "day"):
        with pytest.raises(InvalidLimit, match=r"^start "):
            FixedWindow(1, per, start)


@INTERVALS
@pytest.mark.parametrize("start", ["", "First", "calendar", None, 0, True, ["first"]])
def test_of_a_bucket_is_first_or_epoch(refill, start):
    with pytest.raises(InvalidLimit, match=r"^start "):
        TokenBucket(1, 1, refill=refill, start=start)


def test_epoch_of_a_bucket_needs_intervals():
    with pytest.raises(InvalidLimit, match=r"^start='epoch'.* continuous"):
        TokenBucket(1, 1, start="epoch")
