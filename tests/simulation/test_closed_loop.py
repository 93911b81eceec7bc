"""Clients that come back: when they are told to, or whenever they like."""

from __future__ import annotations

import numpy as np
import pytest

from overlimit import LeakyBucket, Penalty, SlidingLog
from overlimit.simulation import Clients, closed_loop, replay


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


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
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
    ids=range(11),
)
def test_a_wrong_argument_is_named(make, error, message):
    with pytest.raises(error, match=message):
        make()
