"""The header fields: of bare numbers, of decisions, and as the core formats them."""

from __future__ import annotations

import math
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlimit import (
    Detail,
    FixedWindow,
    LeakyBucket,
    Limiter,
    ManualClock,
    MemoryStore,
    SlidingWindow,
    TokenBucket,
    _core,
)
from overlimit._forwarded import checked_header_name
from overlimit.http.answering.fields import (
    HeaderNames,
    Item,
    beside,
    distinct,
    legacy_fields,
    policy_field,
    retry_after_seconds,
)


class Refused(NamedTuple):
    retry_after: float


def test_a_policy_shows_quota_and_window():
    assert policy_field([Item("a", 10, 1.0), Item("b", 5, 0.25)]) == '"a";q=10;w=1, "b";q=5;w=1'


def test_how_many_at_once_has_a_unit_which_is_no_name():
    slots = [("RateLimit-Policy", policy_field([Item("a", 2, None), Item("concurrent-requests", 3, None)]))]
    unit = 'qu="concurrent-requests"'
    assert slots[0][1] == f'"a";q=2;{unit}, "concurrent-requests";q=3;{unit}'
    assert beside(slots, [("RateLimit-Policy", f'"b";q=1;{unit}, "a";q=4;w=1')]) == [
        (
            "RateLimit-Policy",
            f'"b";q=1;{unit}, "a";q=4;w=1, "a-2";q=2;{unit}, "concurrent-requests";q=3;{unit}',
        )
    ]


def test_a_name_is_quoted():
    assert Item('a"b\\c', 1, 1.0).key == r'"a\"b\\c"'


@pytest.mark.parametrize(
    ("seconds", "sent"),
    [(0.000001, 1), (1.0, 1), (1.000001, 2), (59.5, 60), (86400.0, 86400), (math.inf, None)],
)
def test_retry_after_is_rounded_up_and_at_least_one(seconds, sent):
    assert retry_after_seconds(Refused(seconds)) == sent


START = 1_700_000_000.1


class Quota(NamedTuple):
    quota: int
    _refills = False


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


def test_a_bucket_that_grants_nothing_is_shown():
    nothing = [("X-RateLimit-Limit", "0"), ("X-RateLimit-Remaining", "0")]
    for bucket in (TokenBucket(0, per=60), LeakyBucket(0, per=60, capacity=0)):
        assert legacy_fields(limiter(bucket).hit("a")) == nothing
        assert legacy_fields(limiter(bucket).hit("a", cost=0))[:2] == nothing


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


ENFORCE, SHADOW, ON_REFUSAL = 0, 1, 2
LIMITS = [
    [FixedWindow(5, 10)],
    [SlidingWindow(3, 60), TokenBucket(4, per=1.5, burst=9)],
    [LeakyBucket(2, 7, capacity=3), FixedWindow(4, 3600), FixedWindow(2**45, 86400)],
]


def state(rows: list[Detail]) -> str:
    """Return what stands behind ``r=`` for one limit and all identifiers."""
    left = min(row.remaining for row in rows)
    waits = [row.retry_after for row in rows if not row.allowed]
    wait = max(waits, default=max(row.reset_after for row in rows if row.remaining == left))
    return f"{left}" if wait == math.inf else f"{left};t={math.ceil(round(wait, 6))}"


def field(limiters: list[Limiter], identifiers: list[str], decision: _core.Decision) -> str:
    rows = iter(decision.details)
    states = []
    for number, limiter in enumerate(limiters):
        by_identifier = [[next(rows) for _ in limiter.limits] for _ in identifiers]
        for place, of_limit in enumerate(zip(*by_identifier, strict=True)):
            states.append(f"{number}.{place}={state(list(of_limit))}")
    return ", ".join(states)


def keys(limiters: list[Limiter]) -> tuple[tuple[str, ...], ...]:
    return tuple(
        tuple(f"{number}.{place}=" for place in range(len(limiter.limits)))
        for number, limiter in enumerate(limiters)
    )


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 12), st.floats(0, 30)), min_size=1, max_size=8),
    st.lists(st.sampled_from("abcd"), min_size=1, max_size=3, unique=True),
)
def test_each_limit_shows_who_binds(spent, identifiers):
    clock, store = ManualClock(1_700_000_000), MemoryStore()
    limiters = [Limiter(each, name=f"n{i}", store=store, clock=clock) for i, each in enumerate(LIMITS)]
    for identifier, cost, pause in spent:
        for limiter in limiters:
            limiter.hit(identifier, cost=cost)
        clock.advance(pause)
    rules = tuple((limiter, lambda: identifiers, 1, ENFORCE) for limiter in limiters)
    decision = _core._decide_request(rules, {}, tuple, ())
    assert _core._rate_field(keys(limiters), decision) == field(limiters, identifiers, decision)


def test_what_is_not_shown_leaves_no_trace():
    store = MemoryStore()
    one, two, three = (Limiter("5/minute", name=name, store=store) for name in ("one", "two", "three"))
    rules = ((one, str, 1, SHADOW), (two, str, 1, ENFORCE), (three, str, 1, ON_REFUSAL))
    decision = _core._decide_request(rules, {str: ("a",)}, tuple, ())
    assert _core._rate_field((None, ("two=",), None), decision).startswith("two=4;t=")
    assert _core._rate_field((None, None, None), decision) == ""


def test_integers_have_at_most_fifteen_digits():
    decision = Limiter(FixedWindow(2**52, 60), store=MemoryStore()).hit("a")
    assert _core._rate_field((("r=",),), decision).startswith("r=999999999999999;t=")


def test_what_can_never_pass_has_no_time():
    decision = Limiter("5/minute", store=MemoryStore()).hit("a", cost=6)
    assert _core._rate_field((("r=",),), decision) == "r=5"


@pytest.mark.parametrize("wrong", [(), (("a=", "b="),), ("a=",), (5,)])
def test_keys_that_do_not_fit_are_an_error(wrong):
    decision = Limiter("5/minute", store=MemoryStore()).hit("a")
    with pytest.raises((ValueError, TypeError)):
        _core._rate_field(wrong, decision)


def test_integers_of_a_policy_have_at_most_fifteen_digits():
    assert policy_field([Item("a", 2**53, 1.0)]) == '"a";q=999999999999999;w=1'


def test_distinct_keeps_the_first_and_numbers_the_rest():
    assert distinct(["a", "b", "a", "a-2", "a"]) == ("a", "b", "a-2", "a-2-2", "a-3")
    assert distinct([]) == ()


THEIRS = {
    "RateLimit-Policy": '"application";q=5;w=60, "a";q=9;w=1',
    "RateLimit": '"application";r=4;t=60, "a";r=0;t=1',
    "X-RateLimit-Limit": "9",
    "X-RateLimit-Remaining": "3",
    "X-RateLimit-Reset": "1700000001",
}
OURS = [
    ("RateLimit-Policy", '"b";q=7;w=60, "application";q=100;w=60'),
    ("RateLimit", '"b";r=6;t=60, "application";r=98;t=60'),
]
POLICIES = '"application";q=5;w=60, "a";q=9;w=1, "b";q=7;w=60, "application-2";q=100;w=60'
RATES = '"application";r=4;t=60, "a";r=0;t=1, "b";r=6;t=60, "application-2";r=98;t=60'


def test_fields_of_two_layers_are_shown_together_by_different_names():
    assert beside(OURS, THEIRS.items()) == [("RateLimit-Policy", POLICIES), ("RateLimit", RATES)]
    assert beside(OURS, [("ratelimit", each) for each in THEIRS["RateLimit"].split(", ")]) == [
        ("RateLimit-Policy", '"b";q=7;w=60, "application-2";q=100;w=60'),
        ("RateLimit", RATES),
    ]
    assert beside(OURS, []) == OURS


@pytest.mark.parametrize(("remaining", "kept"), [("2", False), ("3", True), ("4", True)])
def test_of_one_limit_the_stricter_is_shown(remaining, kept):
    ours = [
        ("X-RateLimit-Limit", "100"),
        ("X-RateLimit-Remaining", remaining),
        ("X-RateLimit-Reset", "1700000002"),
    ]
    theirs = [(name, value) for name, value in THEIRS.items() if name.startswith("X-")]
    assert beside(ours, theirs) == (theirs if kept else ours)
    assert beside(ours, [("X-RateLimit-Remaining", "many")]) == ours
    assert beside(ours, theirs[:2]) == (theirs[:2] if kept else ours)
