"""The fields X-RateLimit-*, from decisions of a clock that is moved by hand."""

from __future__ import annotations

import math
from typing import NamedTuple

import pytest

from overlimit import FixedWindow, Limiter, ManualClock, MemoryStore, TokenBucket
from overlimit.http.answering.fields import HeaderNames, checked_header_name, legacy_fields

START = 1_700_000_000.1


class Quota(NamedTuple):
    quota: int


class Answer(NamedTuple):
    allowed: bool
    limit: Quota | None
    remaining: int
    retry_after: float
    reset_after: float
    time: float = 0.0


def limiter(*limits, start=START):
    return Limiter(list(limits), store=MemoryStore(), clock=ManualClock(start))


def test_an_admitted_request_shows_the_limit_with_least_left():
    asked = limiter(FixedWindow(100, per=3600), FixedWindow(2, per=60))
    assert legacy_fields(asked.hit("a")) == [
        ("X-RateLimit-Limit", "2"),
        ("X-RateLimit-Remaining", "1"),
        ("X-RateLimit-Reset", "1700000061"),
    ]


def test_a_refusal_shows_when_the_same_request_passes():
    asked = limiter(TokenBucket(1, per=10, burst=5))
    asked.hit("a", cost=5)
    assert legacy_fields(asked.hit("a", cost=2)) == [
        ("X-RateLimit-Limit", "5"),
        ("X-RateLimit-Remaining", "0"),
        ("X-RateLimit-Reset", "1700000021"),
    ]


@pytest.mark.parametrize(
    ("now", "seconds", "reset"),
    [
        (1_700_000_000.1, 59.9, 1_700_000_060),
        (1_700_000_000.7, 0.3, 1_700_000_001),
        (1_700_000_000.0, 60.0, 1_700_000_060),
        (1_700_000_000.0, 0.000001, 1_700_000_001),
        (1_700_000_000.999999, 0.000002, 1_700_000_002),
        (0.0, 0.0, 0),
    ],
)
def test_reset_is_rounded_up_to_a_second_and_no_further(now, seconds, reset):
    shown = legacy_fields(Answer(True, Quota(5), 4, 0.0, seconds, now))
    assert shown[2] == ("X-RateLimit-Reset", str(reset))


def test_what_is_never_admitted_shows_no_reset():
    never = limiter(FixedWindow(0, per=60)).hit("a")
    assert never.retry_after == math.inf
    assert legacy_fields(never) == [("X-RateLimit-Limit", "0"), ("X-RateLimit-Remaining", "0")]


def test_nothing_is_shown_when_no_store_answered():
    assert legacy_fields(Answer(True, None, 0, 0.0, 0.0)) == []


def test_the_names_can_be_others():
    names = HeaderNames("X-L", "X-Rem", "X-Res")
    shown = legacy_fields(limiter(FixedWindow(2, per=60)).hit("a"), names)
    assert [name for name, _ in shown] == ["X-L", "X-Rem", "X-Res"]
    assert names.retry_after == "Retry-After"


@pytest.mark.parametrize("name", ["", " ", "a b", "a\r\nSet-Cookie: x", "a:", "ä", "(", None, 5])
def test_a_name_that_no_header_can_have_is_an_error(name):
    with pytest.raises(ValueError, match="name of a header"):
        checked_header_name(name)


def test_a_name_of_a_header_is_itself():
    assert checked_header_name("X-RateLimit-Limit") == "X-RateLimit-Limit"
