"""What a server says of its limits is read in every form it is said in, and nothing it says raises."""

from __future__ import annotations

import math
import os
import time
from email.utils import formatdate

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from requests.structures import CaseInsensitiveDict

from overlimit import FixedWindow, Limiter, ManualClock, SlidingWindow, _core
from overlimit.http.answering.fields import Item, legacy_fields, policy_field, retry_after_seconds
from overlimit.http.fields import ServerLimit, ServerLimits, parse

NOW = 1_700_000_000.0
PROVE = int(os.environ.get("PROVE", "1"))


def limits(headers):
    return parse(headers, now=NOW).limits


def unnamed(quota=None, window=None, remaining=None, reset_after=None):
    return ServerLimit(None, quota, window, remaining, reset_after)


def test_nothing_is_said_where_nothing_is_said():
    assert parse({}) == parse([]) == parse({"Content-Type": "text/html"}) == ServerLimits(None, ())


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("0", 0.0),
        (" 120 ", 120.0),
        ("1.5", 1.5),
        (formatdate(NOW + 30, usegmt=True), 30.0),
        (formatdate(NOW - 30, usegmt=True), 0.0),
        ("Sunday, 06-Nov-94 08:49:37 GMT", 0.0),
        ("Tue Nov 14 22:13:40 2023", 20.0),
        ("5, 7", 7.0),
        ("-5", None),
        ("soon", None),
        ("", None),
        ("nan", None),
        ("inf", None),
        ("1e3", None),
        ("٣", None),
        ("Wed, 99 Foo 2023 99:99:99 GMT", None),
        ("Thu, 01 Jan 99999 00:00:00 GMT", None),
    ],
)
def test_retry_after_is_in_seconds_or_a_date(value, seconds):
    assert parse({"Retry-After": value}, now=NOW) == ServerLimits(seconds, ())


def test_of_several_retry_afters_the_longest_counts():
    headers = [
        ("Retry-After", "5"),
        ("retry-after", formatdate(NOW + 9, usegmt=True)),
        (b"RETRY-AFTER", b"7"),
    ]
    assert parse(headers, now=NOW).retry_after == 9.0


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        (
            {"RateLimit": '"default";r=50;t=30', "RateLimit-Policy": '"default";q=100;w=60'},
            [ServerLimit("default", 100, 60.0, 50, 30.0)],
        ),
        (
            {
                "RateLimit": '"hour";r=7;t=1800, "minute";t=3;r=0',
                "RateLimit-Policy": '"minute";q=10;w=60;qu="a", "hour";w=3600;q=99;pk=:cHM=:, "day";q=5',
            },
            [
                ServerLimit("hour", 99, 3600.0, 7, 1800.0),
                ServerLimit("minute", 10, 60.0, 0, 3.0, unit="a"),
                ServerLimit("day", 5, None, None, None),
            ],
        ),
        ({"RateLimit": "default;r=5"}, [ServerLimit("default", None, None, 5, None)]),
        ({"RateLimit": '"a, b;c \\"d\\\\";r=5;t=1'}, [ServerLimit('a, b;c "d\\', None, None, 5, 1.0)]),
        (
            {"RateLimit": "limit=100, remaining=50, reset=30", "RateLimit-Policy": "10;w=1, 100;w=60"},
            [unnamed(100, 60.0, 50, 30.0)],
        ),
        ({"RateLimit": "limit=100,remaining=0,reset=1700000009"}, [unnamed(100, None, 0, 9.0)]),
        (
            {
                "RateLimit-Limit": "100, 10;w=1, 100;w=60",
                "RateLimit-Remaining": "50",
                "RateLimit-Reset": "30",
            },
            [unnamed(100, 60.0, 50, 30.0)],
        ),
        ({"RateLimit-Limit": "10;w=60"}, [unnamed(10, 60.0)]),
        (
            {"X-RateLimit-Limit": "60", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1700000012"},
            [unnamed(60, None, 0, 12.0)],
        ),
        ({"X-RateLimit-Remaining": "3", "X-RateLimit-Reset": "12.5"}, [unnamed(None, None, 3, 12.5)]),
        ({"X-Rate-Limit-Limit": "60", "X-Rate-Limit-Reset": "1699999999"}, [unnamed(60, None, None, 0.0)]),
        ({"X-RateLimit-Reset": "31622400"}, [unnamed(reset_after=31622400.0)]),
        ({"X-RateLimit-Reset": "31622401"}, [unnamed(reset_after=0.0)]),
        (
            {"X-RateLimit-Limit": "10, 100", "X-RateLimit-Remaining": "9, x", "X-RateLimit-Reset": "1"},
            [unnamed(10, None, 9, 1.0), unnamed(100)],
        ),
        ({"RateLimit-Policy": '"default";q=100;w=60'}, [ServerLimit("default", 100, 60.0, None, None)]),
        ({"RateLimit": '"default"'}, []),
        ({"RateLimit": '"default";r=-1;t=-1'}, [ServerLimit("default", None, None, 0, None)]),
        ({"RateLimit": "limit=9, remaining=-2, reset=3"}, [unnamed(9, None, 0, 3.0)]),
        ({"X-RateLimit-Remaining": "-7", "X-RateLimit-Reset": "2"}, [unnamed(None, None, 0, 2.0)]),
        ({"X-RateLimit-Remaining": "-many", "X-RateLimit-Reset": "2"}, [unnamed(None, None, None, 2.0)]),
        ({"X-RateLimit-Limit": "-1", "X-RateLimit-Remaining": "-1"}, []),
        ({"RateLimit": '"unfinished;r=5'}, []),
        ({"RateLimit": ";;,=,;r=5;="}, []),
        ({"X-RateLimit-Limit": "many", "X-RateLimit-Reset": "Tue, 14 Nov 2023 22:13:40 GMT"}, []),
    ],
    ids=range(24),
)
def test_limits_are_read_in_every_form(headers, expected):
    assert limits(headers) == tuple(expected)


MINUTE = {"Date": "Tue, 14 Nov 2023 22:13:20 GMT"}


@pytest.mark.parametrize(
    ("headers", "expected", "wait"),
    [
        (
            {
                "RateLimit-Policy": '"burst";q=10;w=1, "day";q=5000;w=86400',
                "RateLimit": '"burst";a=0;w=1;c=2, "day";a=17;w=43200;c=2',
                "RateLimit-Partition": '"burst";user_id, "day";client_id',
            },
            [ServerLimit("burst", 10, 1.0, 0, 1.0, 2), ServerLimit("day", 5000, 86400.0, 17, 43200.0, 2)],
            1.0,
        ),
        (
            {
                "x-ratelimit-limit-requests": "60",
                "x-ratelimit-remaining-requests": "59",
                "x-ratelimit-reset-requests": "1s",
                "x-ratelimit-limit-tokens": "150000",
                "x-ratelimit-remaining-tokens": "0",
                "x-ratelimit-reset-tokens": "6m0.5s",
            },
            [
                ServerLimit("requests", 60, None, 59, 1.0, unit="requests"),
                ServerLimit("tokens", 150000, None, 0, 360.5, unit="tokens"),
            ],
            360.5,
        ),
        (
            {
                "retry-after-ms": "1500",
                "retry-after": "2",
                "x-ratelimit-remaining-tokens": "7",
                "x-ratelimit-reset-tokens": "6ms",
            },
            [ServerLimit("tokens", None, None, 7, 0.006, unit="tokens")],
            1.5,
        ),
        (
            {
                "anthropic-ratelimit-requests-limit": "50",
                "anthropic-ratelimit-requests-remaining": "0",
                "anthropic-ratelimit-requests-reset": "2023-11-14T22:13:40Z",
                "anthropic-ratelimit-input-tokens-remaining": "0",
                "anthropic-ratelimit-input-tokens-reset": "2023-11-14T22:14:00.5+00:00",
                "anthropic-ratelimit-output-tokens-reset": "2023-11-14T22:13:40",
                "anthropic-ratelimit-tokens-remaining": "3",
                "anthropic-ratelimit-tokens-reset": "2023-11-14t22:13:50z",  # RFC 3339 allows small letters
            },
            [
                ServerLimit("requests", 50, None, 0, 20.0, unit="requests"),
                ServerLimit("input-tokens", None, None, 0, 40.5, unit="tokens"),
                ServerLimit("tokens", None, None, 3, 30.0, unit="tokens"),
            ],
            40.5,
        ),
        (
            {
                "X-RateLimit-Limit-Second": "5",
                "X-RateLimit-Remaining-Second": "4",
                "X-RateLimit-Limit-Hour": "100",
                "X-RateLimit-Remaining-Hour": "0",
            },
            [ServerLimit("second", 5, 1.0, 4, None), ServerLimit("hour", 100, 3600.0, 0, None)],
            3600.0,
        ),
        (
            {
                "X-RateLimit-Limit-Minute": "5",
                "X-RateLimit-Remaining-Minute": "0",
                "X-RateLimit-Limit-Hour": "100",
                "X-RateLimit-Remaining-Hour": "40",
                "X-RateLimit-Remaining-Tokens-Per-Minute": "0",
                "RateLimit-Limit": "5",
                "RateLimit-Remaining": "0",
                "RateLimit-Reset": "7",
            },
            [
                unnamed(5, 60.0, 0, 7.0),
                ServerLimit("minute", 5, 60.0, 0, 7.0),
                ServerLimit("hour", 100, 3600.0, 40, None),
                ServerLimit("tokens-per-minute", None, 60.0, 0, None, unit="tokens"),
            ],
            60.0,
        ),
        (
            {
                "X-RateLimit-Limit-Minute": "5",
                "X-RateLimit-Remaining-Minute": "0",
                "RateLimit-Limit": "5",
                "RateLimit-Remaining": "0",
                "RateLimit-Reset": "1",
            },
            [unnamed(5, 60.0, 0, 1.0), ServerLimit("minute", 5, 60.0, 0, 1.0)],
            1.0,
        ),
        (
            {
                "x-ratelimit-limit": "5000",
                "x-ratelimit-remaining": "0",
                "x-ratelimit-reset": "1700000600",
                "x-ratelimit-used": "5000",
                "x-ratelimit-resource": "core",
            },
            [unnamed(5000, None, 0, 600.0)],
            600.0,
        ),
        (
            {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1700000007000"},
            [unnamed(None, None, 0, 7.0)],
            7,
        ),
        (
            {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1700000007000000"},
            [unnamed(None, None, 0, 7)],
            7,
        ),
        ({"X-RateLimit-Remaining": "0"}, [unnamed(remaining=0)], 1.0),
        ({"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1d"}, [unnamed(remaining=0)], 1.0),
        ({"X-RateLimit-Remaining": "1", "X-RateLimit-Reset": "9"}, [unnamed(None, None, 1, 9.0)], 0.0),
        ({"RateLimit": '"a";r=0;t=5', "Retry-After": "9", "Age": "4"}, [], 5.0),
        ({"RateLimit": '"a";r=0;t=5', "Retry-After": "9", "Age": "0, 4"}, [], 5.0),
        ({"RateLimit": '"a";r=0;t=5', "Retry-After": "Tue, 14 Nov 2023 22:13:50 GMT", "Age": "40"}, [], 0.0),
        (
            {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "9", "Age": "0"},
            [unnamed(None, None, 0, 9.0)],
            9,
        ),
    ],
    ids=range(17),
)
def test_what_providers_say_is_read_and_how_long_to_wait(headers, expected, wait):
    for said in (parse(headers, now=NOW), parse({**MINUTE, **headers})):
        assert said.limits == tuple(expected)
        assert said.wait() == wait


def test_an_age_counts_from_now_where_there_is_no_date():
    later = formatdate(time.time() + 100, usegmt=True)
    assert 80 < parse({"Retry-After": later, "Age": "10"}).wait() <= 100


def test_the_draft_comes_before_its_earlier_forms_and_these_before_x_ratelimit():
    said = [
        ({"RateLimit": '"a";r=1;t=1'}, ServerLimit("a", None, None, 1, 1.0)),
        ({"RateLimit-Remaining": "2", "RateLimit-Reset": "2"}, unnamed(remaining=2, reset_after=2.0)),
        ({"X-RateLimit-Remaining": "3", "X-RateLimit-Reset": "3"}, unnamed(remaining=3, reset_after=3.0)),
        ({"X-Rate-Limit-Remaining": "4", "X-Rate-Limit-Reset": "4"}, unnamed(remaining=4, reset_after=4.0)),
    ]
    headers = {}
    for more, expected in reversed(said):
        headers.update(more)
        assert limits(headers) == (expected,)
    assert parse({**headers, "Retry-After": "9"}).retry_after == 9.0


@pytest.mark.parametrize(
    "make",
    [
        dict,
        httpx.Headers,
        CaseInsensitiveDict,
        lambda pairs: {name.upper(): value for name, value in pairs},
        lambda pairs: {name.lower().encode(): value.encode() for name, value in pairs},
        list,
        lambda pairs: [(name.encode(), value.encode()) for name, value in pairs],
        iter,
    ],
    ids=range(8),
)
def test_headers_may_be_a_mapping_or_pairs_of_text_or_bytes_in_any_case(make):
    pairs = [("RateLimit", '"a";r=5;t=1'), ("Retry-After", "3"), ("RateLimit-Policy", '"a";q=9;w=4')]
    assert parse(make(pairs)) == ServerLimits(3.0, (ServerLimit("a", 9, 4.0, 5, 1.0),))


def test_several_fields_of_one_name_are_one_list():
    pairs = [("RateLimit", '"a";r=5;t=1'), ("ratelimit", '"b";r=0;t=2, "a";r=1;t=3')]
    expected = [("a", 5, 1.0), ("b", 0, 2.0), ("a", 1, 3.0)]
    for headers in (pairs, httpx.Headers(pairs)):
        assert [(each.name, each.remaining, each.reset_after) for each in limits(headers)] == expected


def test_dates_and_epochs_count_from_the_date_of_the_response_or_else_from_now():
    headers = {"Retry-After": formatdate(NOW + 9, usegmt=True), "X-RateLimit-Reset": str(int(NOW) + 5)}
    said = parse({**headers, "Date": formatdate(NOW, usegmt=True)})
    assert (said.retry_after, said.limits[0].reset_after) == (9.0, 5.0)
    now = time.time()
    said = parse({"Retry-After": formatdate(now + 100, usegmt=True), "Date": "long ago"})
    assert 100 - 1 - 10 < said.retry_after <= 100


@pytest.mark.parametrize(
    "text", [each * 20_000 for each in ('"\\', '""', ",", "1,", ";", '"a', "99")], ids=range(7)
)
def test_what_is_long_takes_no_more_than_its_length_says(text):
    names = ("RateLimit", "RateLimit-Policy", "X-RateLimit-Limit", "RateLimit-Limit", "Retry-After", "Date")
    began = time.process_time()
    parse(dict.fromkeys(names, text))
    assert time.process_time() - began < 3


NAMES = st.sampled_from(
    [
        "RateLimit",
        "RateLimit-Policy",
        "RateLimit-Limit",
        "RateLimit-Remaining",
        "RateLimit-Reset",
        "X-RateLimit-Limit",
        "x-ratelimit-remaining",
        "X-RATELIMIT-RESET",
        "X-Rate-Limit-Reset",
        "Retry-After",
        "Retry-After-Ms",
        "Age",
        "X-RateLimit-Remaining-Minute",
        "x-ratelimit-reset-tokens",
        "anthropic-ratelimit-tokens-reset",
        "Date",
    ]
)
MARKS = [*'",;=\\ -.:', "\x00", "\r\n", "é", "Tue, 14 Nov 2023 22:13:40 GMT", "+9999", '"a"']
WORDS = [
    "r=",
    "t=",
    "1h2m",
    "9ms",
    "2023-11-14T22:13:40Z",
    "q=",
    "w=",
    "limit=",
    "remaining=",
    "reset=",
    "0",
    "17",
    "1700000001",
    "nan",
    "inf",
    "-1",
    "1e999",
    "Jan",
]
PARTS = st.lists(st.sampled_from(MARKS + WORDS), max_size=12).map("".join)
VALUES = PARTS | PARTS.map(lambda text: text.encode("latin-1")) | st.binary() | st.text()


@pytest.mark.longer_in_prove
@settings(max_examples=200 * PROVE)
@given(st.lists(st.tuples(NAMES | NAMES.map(str.encode) | st.binary() | st.text(), VALUES)))
def test_nothing_raises_and_no_number_is_negative_nan_or_infinite(headers):
    for said in (parse(headers), parse(dict(headers), now=NOW)):
        assert said.retry_after is None or 0 <= said.retry_after < math.inf
        assert 0 <= said.wait() < math.inf
        for limit in said.limits:
            assert isinstance(limit.name, str | None)
            assert any(each is not None for each in limit[1:6])
            assert all(each is None or 0 <= each < math.inf for each in limit[1:6])
            assert isinstance(limit.unit, str | None)
            assert all(isinstance(each, int | None) for each in (limit.quota, limit.remaining))


@given(
    st.lists(
        st.tuples(
            st.none() | st.integers() | st.floats() | st.text(), st.none() | st.integers() | st.floats()
        )
    )
)
def test_values_of_other_types_raise_nothing_either(pairs):
    parse(pairs)
    parse([*pairs, (), ("Retry-After",), 5, "ab", ("Retry-After", ["5"])])
    assert parse({"Retry-After": 5}).retry_after == 5.0


@given(
    names=st.lists(
        st.text(st.characters(min_codepoint=32, max_codepoint=126)), min_size=1, max_size=3, unique=True
    ),
    quotas=st.lists(st.integers(1, 10**9), min_size=3, max_size=3, unique=True),
    windows=st.lists(st.integers(1, 10**6), min_size=3, max_size=3, unique=True),
    hits=st.integers(1, 3),
)
def test_what_overlimit_writes_is_read_back_equal(names, quotas, windows, hits):
    kinds = [FixedWindow, SlidingWindow, FixedWindow]
    rules = [kind(quota, per=window) for kind, quota, window in zip(kinds, quotas, windows, strict=True)]
    limiter = Limiter(rules[: len(names)], clock=ManualClock(NOW))
    for _ in range(hits):
        decision = limiter.hit("a")
    items = [Item(name, limit.quota, limit.per) for name, limit in zip(names, limiter.limits, strict=True)]
    headers = {
        "RateLimit-Policy": policy_field(items),
        "RateLimit": _core._rate_field((tuple(f"{item.key};r=" for item in items),), decision),
        **dict(legacy_fields(decision)),
    }
    read = {limit.name: limit for limit in parse(headers, now=NOW).limits}
    assert list(read) == names
    for item, row in zip(items, decision.details, strict=True):
        shown = read[item.name]
        assert (shown.quota, shown.window, shown.remaining) == (item.quota, item.window, row.remaining)
        assert shown.reset_after is None or shown.reset_after >= 0
    (legacy,) = parse(legacy_fields(decision), now=NOW).limits
    assert (legacy.quota, legacy.remaining) == (decision.limit.quota, decision.remaining)


def test_retry_after_and_reset_of_a_refusal_are_read_back_equal():
    limiter = Limiter(FixedWindow(1, per=60), clock=ManualClock(NOW))
    limiter.hit("a")
    refusal = limiter.hit("a")
    said = parse([("Retry-After", str(retry_after_seconds(refusal))), *legacy_fields(refusal)], now=NOW)
    assert said == ServerLimits(60.0, (unnamed(1, None, 0, 60.0),))


@pytest.mark.parametrize("name", ["RateLimit", "RateLimit-Limit", "X-RateLimit-Limit", "X-RateLimit-Reset"])
def test_a_field_longer_than_any_server_sends_is_not_read(name):
    assert parse({name: "1;w=1," * 20_000}).limits == ()
    assert len(parse([(name, "1")] * 1000).limits) <= 16
    assert parse(None).limits == parse(5).limits == ()
