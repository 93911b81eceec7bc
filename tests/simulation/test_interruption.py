"""Ctrl-C ends every question soon, however many events there are (docs/guides/simulation.md)."""

from __future__ import annotations

import signal
import threading
import time

import numpy as np
import pytest

from overlimit import FixedWindow, Limiter, TokenBucket
from overlimit.simulation import Clients, Events, closed_loop, compare, error_of, replay, suggest, sweep

PROMISED = 0.2
COUNT = 2_000_000


@pytest.fixture(scope="module")
def events():
    random_ = np.random.default_rng(1)
    times = np.sort(random_.integers(1_700_000_000_000_000, 1_700_003_600_000_000, COUNT))
    return Events(times, random_.integers(0, 5000, COUNT), unit="us")


def bucket(rate):
    return TokenBucket(rate, 60)


QUESTIONS = {
    "replay": lambda events: replay(events, "10/second; 120/minute; 240/hour"),
    "summary": lambda events: replay(events, bucket(1), columns=("allowed",)).summary(),
    "compare": lambda events: compare(events, {"a": bucket(1), "b": bucket(2)}),
    "sweep": lambda events: sweep(events, bucket, [1, 2, 3]).best("7", "8"),
    "suggest": lambda events: suggest(events, bucket, (1, 1000), spare="8"),
    "by_label": lambda events: replay(events.with_labels(str), bucket(1), columns=("allowed",)).by_label(),
    "error_of": lambda events: error_of(events, FixedWindow(5, 60)),
    "closed_loop": lambda events: closed_loop(Clients(1000, 10), "100/minute", 3600),
    "hit_many": lambda events: Limiter(bucket(1)).hit_many(["user:42"] * COUNT),
}


@pytest.mark.check
@pytest.mark.usefixtures("ctrl_c")
@pytest.mark.parametrize("ask", QUESTIONS.values(), ids=QUESTIONS)
@pytest.mark.parametrize("after", [0.02, 0.3])
def test_ctrl_c_ends_it_soon(events, ask, after):
    sent = []

    def interrupt():
        sent.append(time.monotonic())
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    timer = threading.Timer(after, interrupt)
    timer.start()
    try:
        ask(events)
        timer.join()  # it was faster than the signal, which comes here
    except KeyboardInterrupt:
        assert time.monotonic() - sent[0] < 10 * PROMISED
    else:
        raise AssertionError("no signal came")
