"""A replay answers every event as a limiter does that is asked at its time, field by field."""

from __future__ import annotations

import os
import random

import numpy as np
import pytest

from conformance.all_algorithms import CALENDAR, in_debt, of_each_algorithm
from overlimit import Limiter, ManualClock, MemoryStore, Penalty, SlidingLog, TokenBucket
from overlimit.simulation import Events, Replay, replay

START_US = 1_700_000_000_000_000
LIMITS = [
    *of_each_algorithm(3, 10).values(),
    *of_each_algorithm(7, 60).values(),
    *CALENDAR.values(),
    *in_debt(3, 5, 10).values(),
    SlidingLog(5, 30),
    TokenBucket(0.37, 1, burst=4),
]
PENALTIES = [None, Penalty(60), Penalty([1, 5, 30], extend=True), Penalty([2, 4], forget_after=20)]
STEPS_US = (0, 0, 1, 300_000, 1_700_000, 9_000_000)
COLUMNS = ("allowed", "status", "remaining", "retry_after", "reset_after", "delay", "limit", "identifier")
TRACES = 150 * int(os.environ.get("PROVE", "1"))


def any_events(random_, count):
    """Return events at random times, not in order, with ties and with identifiers missing here and there."""
    times, now = [], START_US
    for _ in range(count):
        now += random_.choice(STEPS_US) if random_.random() > 0.03 else 10**10
        times.append(now)
    columns = {
        name: [random_.choice([None, "x", "y", 7]) for _ in times]
        for name in random_.sample(["ip", "user", "key"], random_.randint(1, 3))
    }
    first = next(iter(columns.values()))
    for k, row in enumerate(zip(*columns.values(), strict=True)):
        first[k] = "z" if set(row) == {None} else first[k]
    rows = random_.sample(range(count), count)
    return Events(
        [times[k] for k in rows],
        {name: [column[k] for k in rows] for name, column in columns.items()},
        [random_.choice([1, 1, 1, 0, 2, 3, 9]) for _ in rows],
        unit="us",
    )


def hits_on(events, limits, penalty):
    """Return what a limiter answers, in the order given: the fields of ``COLUMNS``."""
    clock = ManualClock()
    limiter = Limiter(limits, penalty=penalty, clock=clock, store=MemoryStore())
    names = [column.name for column in events._columns]
    answers = [None] * len(events)
    for row, event in zip(events.order.tolist(), events, strict=True):
        clock.set(event.time)
        decision = limiter.hit(*event.identifiers, cost=event.cost)
        answers[row] = (
            decision.allowed,
            Replay.STATUSES.index(decision.status),
            decision.remaining,
            decision.retry_after,
            decision.reset_after,
            decision.delay,
            limiter.limits.index(decision.limit),
            names.index(decision.identifier.split(":")[0]),
        )
    return answers


@pytest.mark.longer_in_prove
def test_every_column_is_as_the_limiter_answers_whatever_the_limits():
    random_ = random.Random(int.from_bytes(os.urandom(4)) if "PROVE" in os.environ else 20)
    for _ in range(TRACES):
        limits = random_.sample(LIMITS, random_.randint(1, 4))
        penalty = random_.choice(PENALTIES)
        events = any_events(random_, random_.randint(1, 300))
        answers = replay(events, limits, penalty=penalty)
        rows = zip(*(getattr(answers, name).tolist() for name in COLUMNS), strict=True)
        for row, (answer, expected) in enumerate(zip(rows, hits_on(events, limits, penalty), strict=True)):
            assert answer == expected, (row, limits, penalty)


def test_columns_that_were_not_asked_for_say_so():
    events = Events([0, 1], ["a", "a"])
    answers = replay(events, "1/minute", columns=("allowed",))
    assert answers.allowed.tolist() == [True, False]
    assert (answers.refused, answers.refused_share) == (1, 0.5)
    with pytest.raises(AttributeError, match=r"columns=\('allowed', 'delay'\)"):
        _ = answers.delay
    with pytest.raises(ValueError, match="did you mean 'remaining'"):
        replay(events, "1/minute", columns=("remainin",))


def test_an_event_that_is_too_large_for_a_call_is_named_before_anything_is_replayed():
    columns = {name: ["x", "y"] for name in "abcdefghij"}
    columns["a"][1] = None
    with pytest.raises(ValueError, match=r"row 0 names 10 identifiers, .* at most 6"):
        replay(Events([5, 4], columns), SlidingLog(10_000, 60))


def test_tables_say_what_each_limit_identifier_and_minute_got():
    times = [0, 0, 0, 1, 62, 125]
    events = Events(times, {"ip": ["x", "x", "x", "x", "x", "y"]})
    answers = replay(events, ["2/minute", "100/hour"], penalty=Penalty(30))
    summary = answers.summary()
    assert summary.index.tolist() == ["2 per 1 minute", "100 per 1 hour", "lock"]
    assert summary["refused"].tolist() == [2, 0, 1], "the lock refused what the limit refused too"
    assert summary["refused_alone"].tolist() == [1, 0, 0]
    assert summary["least_left"].tolist()[:2] == [0.0, 0.97]
    people = answers.by_identifier()
    assert people.index.tolist() == ["ip:x", "ip:y"]
    assert people.loc["ip:x"].tolist() == [5, 3, 2, 62.0]
    assert people.loc["ip:y"].tolist() == [1, 1, 0, 0.0]
    minutes = answers.by_time()
    assert minutes["sent"].tolist() == [4, 1, 1]
    assert minutes["refused"].tolist() == [2, 0, 0]
    table = answers.to_pandas()
    assert table["status"].tolist() == ["ok", "ok", "over", "locked", "ok", "ok"]
    assert table["binding_identifier"].tolist() == ["ip:x"] * 5 + ["ip:y"]


def test_nothing_comes_of_no_events():
    answers = replay(Events([], []), "1/minute")
    assert (len(answers), answers.refused, answers.refused_share) == (0, 0, 0.0)
    assert len(answers.by_identifier()) == len(answers.by_time()) == 0
    assert answers.summary()["refused"].tolist() == [0]


def test_a_replay_of_some_events_answers_in_their_order():
    events = Events([3, 1, 2, 0], ["a", "a", "b", "a"])[1:]
    answers = replay(events, "1/minute")
    assert np.array_equal(answers.allowed, [False, True, True])
