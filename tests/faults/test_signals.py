"""Signals that arrive while a call waits for a server that is stopped."""

from __future__ import annotations

import os
import signal
import statistics
import threading
import time
from contextlib import contextmanager

import pytest

from servers.patience import eventually

from .answering import answers
from .bounds import LATEST, RECOVERY

pytestmark = [pytest.mark.only_threads, pytest.mark.usefixtures("ctrl_c")]

PROMPTLY = 0.5
"""Seconds from a signal to the exception that its handler raises."""


@contextmanager
def signal_after(seconds, number):
    """Send this process a signal during the block; yields a list that gets the time of sending."""
    sent = []

    def send():
        sent.append(time.monotonic())
        os.kill(os.getpid(), number)

    timer = threading.Timer(seconds, send)
    timer.start()
    try:
        yield sent
    finally:
        timer.cancel()
        timer.join()


@contextmanager
def handled_by(number, handler):
    before = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, before)


@pytest.fixture
def stopped(server, limiter_at):
    """A limiter with a timeout of 10 s, connected to a server that is stopped now."""
    limiter = limiter_at(server.tcp_url())
    assert answers(limiter)
    server.pause()
    return limiter


def test_ctrl_c_ends_a_call_promptly_and_it_works_again(server, stopped, ledger, counted):
    lags = []
    for _ in range(5):
        with pytest.raises(KeyboardInterrupt), signal_after(0.1, signal.SIGINT) as sent:
            stopped.hit("a")
        lags.append(time.monotonic() - sent[0])
    assert min(lags) >= 0
    assert statistics.median(lags) < PROMPTLY
    server.resume()
    eventually(lambda: answers(stopped), within=RECOVERY)
    ledger.hit_times(5, stopped, "b")
    assert ledger.acknowledged == 5
    assert 0 <= counted("a") <= 5


def test_ctrl_c_ends_nobody_elses_call(server, stopped, ledger, counted):
    others = [threading.Thread(target=ledger.hit, args=(stopped, "others")) for _ in range(4)]
    for other in others:
        other.start()
    with pytest.raises(KeyboardInterrupt), signal_after(0.2, signal.SIGINT):
        stopped.hit("a")
    assert all(other.is_alive() for other in others)
    server.resume()
    for other in others:
        other.join()
    assert (ledger.acknowledged, counted("others")) == (4, 4)
    assert ledger.slowest < 5.0


def test_ctrl_c_ends_a_call_that_follows_another_threads(server, stopped, ledger, counted):
    leader = threading.Thread(target=ledger.hit, args=(stopped, "leader"))
    leader.start()
    time.sleep(0.1)
    with pytest.raises(KeyboardInterrupt), signal_after(0.1, signal.SIGINT) as sent:
        stopped.hit("follower")
    assert time.monotonic() - sent[0] < PROMPTLY + LATEST
    server.resume()
    leader.join()
    assert (ledger.acknowledged, counted("leader")) == (1, 1)


def test_what_a_handler_raises_is_raised(stopped):
    def refuse(*_):
        raise LookupError("from the handler")

    with (
        handled_by(signal.SIGUSR1, refuse),
        signal_after(0.1, signal.SIGUSR1),
        pytest.raises(LookupError, match="from the handler"),
    ):
        stopped.hit("a")


def test_a_handler_may_hit_itself(server, stopped, ledger, counted):
    decisions = []

    def hit_too(*_):
        server.resume()
        decisions.append(stopped.hit("handler"))

    with handled_by(signal.SIGUSR1, hit_too), signal_after(0.1, signal.SIGUSR1):
        ledger.hit(stopped, "a")
    assert [decision.allowed for decision in decisions] == [True]
    assert (ledger.acknowledged, counted("a"), counted("handler")) == (1, 1, 1)
    assert ledger.slowest < 5.0
