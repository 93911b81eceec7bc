"""Clients that come back: when they are told to, or whenever they like."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from overlimit import LeakyBucket, Limiter, ManualClock, MemoryStore, Penalty, SlidingLog, TokenBucket
from overlimit.simulation import Clients, Events, closed_loop, replay, traffic
from overlimit.simulation.questions import closed_loops


def by_client(answers):
    """Return of each client its times in us, and whether it passed."""
    events = answers.events
    for name in np.unique(events.identifiers):
        own = events.identifiers == name
        yield name, events.times[own], answers.allowed[own], answers.retry_after[own]


def test_a_client_that_honours_retry_after_is_let_in_when_it_comes_back():
    answers = closed_loop(Clients(20, rate=5), SlidingLog(3, 10), 120)
    for _, times, allowed, retry_after in by_client(answers):
        refused = np.flatnonzero(~allowed[:-1])
        assert len(refused) > 5
        assert np.array_equal(np.diff(times)[refused], np.rint(retry_after[refused] * 1e6))
        assert allowed[refused + 1].all()


def test_jitter_only_makes_it_later_and_spreads_them():
    answers = closed_loop(Clients(20, rate=5, jitter=0.5), SlidingLog(3, 10), 120)
    for _, times, allowed, retry_after in by_client(answers):
        refused = np.flatnonzero(~allowed[:-1])
        later = np.diff(times)[refused] / 1e6 / retry_after[refused]
        assert ((later >= 1 - 1e-6) & (later <= 1.5 + 1e-6)).all()
        assert later.std() > 0.05


def test_those_who_hammer_send_far_more_and_get_no_more():
    kinds = [Clients(10, rate=5), Clients(10, rate=5, honours_retry_after=False)]
    answers = closed_loop(kinds, SlidingLog(3, 10), 600)
    table = answers.to_pandas()
    sent = table["label"].value_counts()
    passed = table[table["allowed"]]["label"].value_counts()
    assert sent["hammering"] == pytest.approx(10 * 5 * 600, rel=0.05)
    assert sent["patient"] < sent["hammering"] / 5
    assert passed["patient"] >= passed["hammering"]


def test_a_request_is_dropped_after_so_many_refusals_in_a_row():
    answers = closed_loop(Clients(1, rate=1, gives_up_after=2), SlidingLog(1, 1000), 900)
    ((_, _, allowed, _),) = by_client(answers)
    assert allowed.tolist()[:1] == [True]
    assert not allowed[1:].any(), "it came back at retry_after once the window was over"
    dropped = closed_loop(Clients(1, rate=100, gives_up_after=1), SlidingLog(1, 10), 9)
    assert dropped.refused > 500, "each request is dropped at once, and the next one comes"


def test_who_can_never_pass_is_gone():
    answers = closed_loop(Clients(7, rate=10), "0/minute", 60)
    assert len(answers) == 7
    assert answers.retry_after.tolist() == [np.inf] * 7


def test_a_request_that_is_delayed_is_under_way_until_its_delay_is_over():
    answers = closed_loop(Clients(1, rate=1000), LeakyBucket(1, 1, capacity=5), 60)
    assert answers.refused == 0
    waits = np.diff(answers.events.times) / 1e6
    assert (waits >= answers.delay[:-1] - 1e-6).all()


def test_it_is_a_replay_of_what_was_sent_whatever_the_penalty():
    answers = closed_loop(Clients(5, 2, honours_retry_after=False), "5/minute", 300, penalty=Penalty([2, 60]))
    again = replay(answers.events, "5/minute", penalty=Penalty([2, 60]))
    assert np.array_equal(answers.allowed, again.allowed)
    assert "locked" in set(answers.to_pandas()["status"])


def test_the_same_seed_gives_the_same_events():
    runs = [closed_loop(Clients(5, 2), "5/minute", 60, seed=seed).events.times.tolist() for seed in (1, 1, 2)]
    assert runs[0] == runs[1] != runs[2]


def test_nothing_is_sent_in_no_time_and_by_nobody():
    for clients, duration in ((Clients(5, 2), 0), (Clients(0, 1.0), 60), ([], 60)):
        answers = closed_loop(clients, "5/minute", duration)
        assert len(answers) == len(answers.by_identifier()) == 0


def tried_one_by_one(events, policy, penalty, behaviours):
    """Return the delay of each request, and every try, by asking a limiter whose clock is moved by hand."""
    clock = ManualClock()
    limiter = Limiter(policy, penalty=penalty, store=MemoryStore(), clock=clock)
    ordered = sorted(range(len(events)), key=lambda k: events.times[k])
    requests = [(int(events.times[k]), events[k]) for k in ordered]
    times = {}
    for time, event in requests:
        times.setdefault(event.identifiers[0], []).append(time)
    pace = {
        name: max(100_000, sorted(np.diff(own))[(len(own) - 1) // 2]) if len(own) > 1 else None
        for name, own in times.items()
    }
    coming = [(time, k) for k, (time, _) in enumerate(requests)]
    delays, tries = [np.nan] * len(requests), []
    while coming:
        now, k = min(coming)
        coming.remove((now, k))
        if now > requests[-1][0]:
            break
        came, event = requests[k]
        clock.set(now / 1e6)
        decision = limiter.hit(*event.identifiers, cost=event.cost)
        tries.append((now, event.identifiers, event.cost, bool(decision)))
        behaviour = behaviours if isinstance(behaviours, str) else behaviours.get(event.label, "retry")
        if decision:
            delays[k] = (now - came) / 1e6 + decision.delay
        elif behaviour == "give up" or decision.status == "never":
            delays[k] = np.inf
        elif behaviour == "hammer" and pace[event.identifiers[0]]:
            coming.append((now + int(pace[event.identifiers[0]]), k))
        else:
            coming.append((now + max(1, round(decision.retry_after * 1e6)), k))
    given = np.empty(len(delays))
    given[ordered] = delays
    return given, tries


REQUESTS = st.lists(
    st.tuples(
        st.integers(0, 40),
        st.sampled_from("abc"),
        st.sampled_from(["", "", "u", "v"]),
        st.sampled_from([1, 1, 1, 2, 9]),
        st.sampled_from("xy"),
    ),
    min_size=1,
    max_size=25,
)
POLICIES = [
    SlidingLog(2, 5),
    TokenBucket(1, 4, burst=2),
    LeakyBucket(1, 2, capacity=2),
    [SlidingLog(1, 1), "4/10s"],
]
BEHAVIOURS = ["retry", "hammer", "give up", {"x": "hammer"}, {"x": "give up", "y": "retry"}]


# Two wait for the same instant: who is earlier in the log goes first, though it came to wait later.
MEETING = list(
    zip(
        [0, 0, 2, 4, 10, 12, 14, 14],
        "a" * 8,
        ["", "u", "u", "", *"uuuu"],
        [1, 2, 1, 2, 2, 2, 2, 1],
        "x" * 8,
        strict=True,
    )
)


@example(MEETING, "2/5s", None, "retry")
@settings(max_examples=150)
@given(
    REQUESTS,
    st.sampled_from(POLICIES),
    st.sampled_from([None, Penalty(3), Penalty([1, 7])]),
    st.sampled_from(BEHAVIOURS),
)
def test_each_request_of_a_log_is_tried_as_one_by_one(rows, policy, penalty, behaviours):
    times, names, users, costs, labels = map(list, zip(*rows, strict=True))
    identifiers = {"ip": names, "user": users} if any(users) else names
    events = Events([time / 2 for time in times], identifiers, costs, labels=labels)
    if isinstance(behaviours, dict):
        behaviours = {label: behaviours.get(label, "retry") for label in labels}
    found = closed_loop(events, policy, clients=behaviours, penalty=penalty)
    delays, tries = tried_one_by_one(events, policy, penalty, behaviours)
    assert np.array_equal(found.delays, delays, equal_nan=True)
    assert (found.dropped, found.waiting) == (np.isinf(delays).sum(), np.isnan(delays).sum())
    tried = zip(found.events.times.tolist(), found.events, found.allowed.tolist(), strict=True)
    assert [(now, each.identifiers, each.cost, passed) for now, each, passed in tried] == tries
    passed = found.events[found.allowed]
    assert found.peak_60s == passed.costs.sum()


def test_a_log_under_a_limit_that_refuses_nothing_is_as_it_was():
    events = traffic.poisson(3, 300)
    for behaviour in ("retry", "hammer", "give up"):
        found = closed_loop(events, "1000/second", clients=behaviour)
        assert found.events == events
        assert not found.delays.any()
        assert (found.dropped, found.waiting) == (0, 0)
    assert f"{len(events):,} requests, tried {len(events):,} times" in repr(found)
    old = closed_loop(clients=Clients(2, 1), limits="1/minute", duration=60)
    assert set(old.events.labels) == {"patient"}


def test_a_burst_that_is_refused_passes_as_the_limit_lets_it():
    events = Events([0.0] * 5 + [100.0], ["a"] * 6)
    found = closed_loop(events, SlidingLog(2, 10))
    assert found.delays.tolist() == [0, 0, 10, 10, 20, 0]
    assert (found.refused, found.peak_1s, len(found)) == (3 + 1, 2, 10)
    assert "3 delayed (10 s in the median, 20 s at most)" in repr(found)


def test_clients_who_would_never_come_to_an_end_are_told_so(monkeypatch):
    monkeypatch.setattr(closed_loops, "_MOST_TRIES", 1000)
    events = Events(np.linspace(0, 100, 500), ["a"] * 500)
    with pytest.raises(ValueError, match="more than 1,000 times: have some of them give up"):
        closed_loop(events, SlidingLog(1, 10))


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: closed_loop(Events([1], ["a"]), "1/minute", clients="wait"), ValueError, "one of 'retry'"),
        (
            lambda: closed_loop(Events([1], ["a"]), "1/minute", clients={"x": "retry"}),
            ValueError,
            "no event has the label 'x'",
        ),
        (lambda: closed_loop(Events([], []), "1/minute"), ValueError, "events must not be empty"),
        (lambda: closed_loop(Events([0], ["a"]), "1/minute", 5), ValueError, "duration is for Clients"),
        (lambda: Clients(-1, 1), ValueError, "count must be a whole number from 0"),
        (lambda: Clients(1.5, 1), TypeError, "count"),
        (lambda: Clients(1, 0), ValueError, "rate"),
        (lambda: Clients(1, "1"), TypeError, "rate"),
        (lambda: Clients(1, 1, jitter=-1), ValueError, "jitter"),
        (lambda: Clients(1, 1, gives_up_after=0), ValueError, "gives_up_after"),
        (lambda: Clients(1, 1, label=3), TypeError, "label"),
        (lambda: closed_loop([Clients(1, 1)] * 2, "1/minute", 1), ValueError, "label="),
        (lambda: closed_loop("abc", "1/minute", 1), TypeError, "Clients\\(count, rate\\)"),
        (lambda: closed_loop(Clients(1, 1), "1/minute", -1), ValueError, "duration"),
        (lambda: closed_loop(Clients(1, 1), "1/minute", 1e10), ValueError, "2219"),
    ],
    ids=range(15),
)
def test_a_wrong_argument_is_named(make, error, message):
    with pytest.raises(error, match=message):
        make()
