"""Whatever a limit is described by, it is a limit or an InvalidLimit that shows what is wrong."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from overlimit import InvalidLimit, Limiter, SlidingWindow, TokenBucket
from overlimit.limits import ALGORITHMS, Limit, as_limits, parse

from .amounts import MANY

pytestmark = pytest.mark.longer_in_prove

UNITS = {
    1_000: ["ms"],
    10**6: ["s", "sec", "secs", "second", "seconds"],
    60 * 10**6: ["m", "min", "mins", "minute", "minutes"],
    3600 * 10**6: ["h", "hour", "hours"],
    86_400 * 10**6: ["d", "day", "days"],
    7 * 86_400 * 10**6: ["w", "week", "weeks"],
    30 * 86_400 * 10**6: ["month", "months"],
    365 * 86_400 * 10**6: ["year", "years"],
}
SPACES = st.sampled_from(["", " ", "  ", "\t", "\n"])
ALGORITHM = st.none() | st.sampled_from(sorted(ALGORITHMS))


@st.composite
def phrases(draw):
    """A phrase of the grammar, and the limit that it means."""
    count, times = draw(st.integers(0, 10**6)), draw(st.none() | st.integers(1, 12))
    length, words = draw(st.sampled_from(sorted(UNITS.items())))
    word = draw(st.sampled_from(words))
    word = draw(st.sampled_from([word, word.upper(), word.title()]))
    around = [draw(SPACES) for _ in range(4)]
    per = draw(st.sampled_from([f"{around[0]}/{around[1]}", f" {around[0]}per {around[1]}"]))
    text = f"{around[2]}{count}{per}{'' if times is None else times}{around[3]}{word}"
    period = (times or 1) * length / 1e6
    burst = draw(st.none() | st.integers(1, 10**6)) if count else None
    if burst is None:
        return text, SlidingWindow(count, period)
    try:
        return f"{text} Burst {burst}", TokenBucket(count, period, burst=burst)
    except InvalidLimit:  # too large for its rate
        return text, SlidingWindow(count, period)


def is_right_or_refused(build):
    """Return the limits, if there are any; they do limit, whatever they are."""
    try:
        limits = build()
    except InvalidLimit as error:
        message = str(error)
        assert message
        return None
    assert 1 <= len(limits) <= 16
    for limit in limits:
        assert isinstance(limit, Limit)
        assert 0 <= limit.quota < 2**53
    return limits


WRONG_WORDS = ["1.5", "-1", "fortnight", "1e3", "٣"]
WORDS = ["10", "0", "/", "per", "burst", ";", ",", "|", "second", "min", "ms", *WRONG_WORDS]


@MANY
@given(st.text() | st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join), ALGORITHM)
@example("", None)
@example("0/second", None)
@example("10/٣ seconds", None)
@example("\uff19/minute", None)
@example("10/second burst", "token_bucket")
@example("1" * 5000 + "/second", None)
@example("\ud800/second", None)
@example("10/second;" * 17, None)
def test_any_text_and_any_words_of_the_grammar(text, algorithm):
    if is_right_or_refused(lambda: as_limits(text, algorithm)) is not None:
        assert all(text.count(word) == 0 for word in WRONG_WORDS)


@MANY
@given(st.lists(phrases(), min_size=1, max_size=5), st.sampled_from([";", ",", "|", " ; "]))
def test_what_the_grammar_says_is_read_as_it_is_meant(drawn, separator):
    assert parse(separator.join(text for text, _ in drawn)) == [limit for _, limit in drawn]


@MANY
@given(phrases(), st.data())
def test_one_edit_away_from_a_phrase_is_another_limit_or_shows_the_place(drawn, data):
    text, _ = drawn
    at = data.draw(st.integers(0, len(text)))
    inserted = data.draw(st.sampled_from(["", "x", "0", ".", "-", "é", "/", " ", ";", "\x00"]))
    edited = text[:at] + inserted + text[at + data.draw(st.integers(0, 1)) :]
    try:
        limits = parse(edited)
    except InvalidLimit as error:
        message = str(error)
        assert message.endswith("^")
        return
    assert not set(edited) & set(".-é\x00")
    assert all(isinstance(limit, (SlidingWindow, TokenBucket)) for limit in limits)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=8,
)


@MANY
@given(JSON, ALGORITHM)
@example([[60, 10], [3600, 100, 60]], None)
@example([[60, True]], None)
@example([60, float("nan")], None)
@example([], None)
@example([[]], None)
@example({"60": 10}, None)
def test_any_value_of_json(value, algorithm):
    is_right_or_refused(lambda: as_limits(value, algorithm))


def test_tuples_that_went_through_json_are_the_same_limits():
    limits = [(60, 10), (3600, 100, 60), "5/s burst 9"]
    assert Limiter(json.loads(json.dumps(limits)), name="json").limits == as_limits(limits)
