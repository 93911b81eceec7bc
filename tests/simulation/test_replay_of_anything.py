"""Whatever the limits, a replay answers as a limiter does at the times of events, and as the oracle does."""

from __future__ import annotations

import os
import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conformance.answers import answer_of, expected_of
from conformance.oracle import Oracle
from conformance.strategies import LAST_US, START_US, durations_of, limits, penalties
from overlimit import Limiter, ManualClock, MemoryStore
from overlimit.simulation import Events, Replay, replay

PROVE = int(os.environ.get("PROVE", "1"))
TRACES, EVENTS = 60 * PROVE, 200
FEWEST_EVENTS = 10_000 * PROVE
VALUES = ["x", b"x", "user:é", "\ud800", 7, "7", None, None]
COSTS = [*[1] * 10, 2, 2, 3, 0, 9, 2**53, 2**64]


def times_of(random_, policy):
    """Return times that mean something to these limits: ties, around their periods, and rarely far ahead."""
    now, periods = START_US, durations_of(policy)
    for _ in range(EVENTS):
        period = random_.choice(periods)
        now += random_.choice(
            [0, 0, 1, random_.randint(0, 3), period // 3, period, period - 1, period + 1, 2 * period]
        )
        now += random_.randint(0, LAST_US // 8) if random_.random() < 0.01 else 0
        now = min(now, LAST_US)
        yield now


def any_events(random_, policy):
    """Return events of one to three columns, with identifiers missing, given in any order."""
    names = random_.sample(["ip", "user", "key"], random_.randint(1, 3))
    columns = {name: random_.choices(VALUES, k=EVENTS) for name in names}
    first = columns[names[0]]
    for row, values in enumerate(zip(*columns.values(), strict=True)):
        first[row] = "z" if set(values) == {None} else first[row]
    times, costs = list(times_of(random_, policy)), random_.choices(COSTS, k=EVENTS)
    rows = random_.sample(range(EVENTS), EVENTS) if random_.random() < 0.5 else range(EVENTS)
    given_columns = {name: [column[row] for row in rows] for name, column in columns.items()}
    return Events(
        [times[row] for row in rows],
        given_columns if len(names) > 1 or random_.random() < 0.5 else given_columns[names[0]],
        [costs[row] for row in rows],
        unit="us",
    ), [costs[row] for row in rows]


def fields_of(answers, limits, columns, row):
    """Return what the columns say of an event, as a Decision says it."""
    return {
        "allowed": bool(answers.allowed[row]),
        "status": Replay.STATUSES[answers.status[row]],
        "remaining": int(answers.remaining[row]),
        "retry_after": float(answers.retry_after[row]),
        "reset_after": float(answers.reset_after[row]),
        "delay": float(answers.delay[row]),
        "limit": limits[answers.limit[row]],
        "identifier": columns[answers.identifier[row]][row],
    }


def assert_equal_answers(policy, penalty, seed):
    """Ask a limiter and the oracle about each event, and compare with the replay; return how many."""
    events, costs = any_events(random.Random(seed), tuple(policy))
    answers = replay(events, policy, penalty=penalty)
    clock = ManualClock()
    limiter = Limiter(policy, penalty=penalty, clock=clock, store=MemoryStore(), name="replayed")
    oracle = Oracle(tuple(policy), "replayed", penalty=penalty)
    found = events.identifiers
    columns = list(found.values()) if isinstance(found, dict) else [found]
    for row in events.order.tolist():
        event, time_us = events[row], events.times[row].item()
        said = fields_of(answers, limiter.limits, columns, row)
        clock.set(time_us / 1e6)
        by_limiter = answer_of(limiter.hit(*event.identifiers, cost=costs[row]))
        assert said == {name: by_limiter[name] for name in said}, row
        by_oracle = expected_of(oracle.hit(time_us, list(event.identifiers), costs[row]))
        assert said == {name: by_oracle[name] for name in said}, row
    return len(events)


@pytest.mark.longer_in_prove
def test_every_field_of_every_event_is_the_limiters_and_the_oracles():
    compared = 0

    @settings(max_examples=TRACES, deadline=None, suppress_health_check=list(HealthCheck))
    @given(
        policy=st.lists(limits, min_size=1, max_size=4),
        penalty=st.none() | penalties,
        seed=st.integers(0, 2**32),
    )
    def compare(policy, penalty, seed):
        nonlocal compared
        compared += assert_equal_answers(policy, penalty, seed)

    compare()
    assert compared >= FEWEST_EVENTS
