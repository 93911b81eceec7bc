"""Every call of the client while its reply takes longer than any wait inside of it lasts."""

from __future__ import annotations

import signal
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from overlimit import Limiter, RedisStore, StoreTimeout, hit_all
from servers.fault_proxy import FaultProxy
from servers.patience import eventually
from servers.redis_server import RedisServer

TIMEOUT = 5.0
ROWS = ["a", "b", "c"]

CALLS = {
    "hit": lambda limiter: limiter.hit("a").allowed,
    "hit of several": lambda limiter: limiter.hit("a", "b").allowed,
    "peek": lambda limiter: limiter.peek("a").allowed,
    "hit_many": lambda limiter: limiter.hit_many(ROWS).allowed.all(),
    "peek_many": lambda limiter: limiter.peek_many(ROWS).allowed.all(),
    "hit_all": lambda limiter: hit_all([(limiter, "a"), (limiter, "b")]).allowed,
    "acquire": lambda limiter: limiter.acquire("a").allowed,
    "refund": lambda limiter: limiter.refund(limiter.decision) is None,
    "lock": lambda limiter: limiter.lock("d", 60) is None,
    "unlock": lambda limiter: limiter.unlock("d") is None,
    "reset": lambda limiter: limiter.reset("a", "b") is None,
    "reset_all": lambda limiter: limiter.reset_all() is None,
}
EACH_CALL = pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
DELAYS = [0.030, 0.045, 0.070]


class LimiterWithDecision(Limiter):
    """A limiter that has something to refund."""

    decision = None


@pytest.fixture(scope="module")
def server():
    server = RedisServer()
    yield server
    server.stop()


@pytest.fixture(scope="module")
def proxy(server):
    proxy = FaultProxy(server.port)
    yield proxy
    proxy.stop()


@pytest.fixture
def new_proxy(server):
    """A server that nobody has connected to."""
    proxy = FaultProxy(server.port)
    yield proxy
    proxy.stop()


@pytest.fixture
def limiter(proxy, prefix):
    limiter = LimiterWithDecision(
        "1000000/day", name="slow", store=RedisStore(proxy.url, timeout=TIMEOUT, prefix=prefix)
    )
    limiter.decision = limiter.hit("a")
    yield limiter
    proxy.restore()


@contextmanager
def signals(every):
    """Send this process a signal so often; yields a list of when each was handled."""
    handled = []
    before = signal.signal(signal.SIGALRM, lambda *_: handled.append(time.monotonic()))
    signal.setitimer(signal.ITIMER_REAL, every, every)
    try:
        yield handled
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@EACH_CALL
@pytest.mark.parametrize("seconds", DELAYS)
def test_a_server_far_away_answers_every_call(proxy, limiter, call, seconds):
    proxy.delay(replies=seconds)
    began = time.monotonic()
    assert call(limiter)
    assert seconds <= time.monotonic() - began < TIMEOUT


@EACH_CALL
def test_signals_keep_no_call_from_its_answer(proxy, limiter, call):
    proxy.delay(replies=0.045)
    with signals(every=0.004) as handled:
        assert call(limiter)
    assert handled


def test_a_caller_with_a_longer_timeout_gives_the_handshake_that_time(new_proxy, prefix):
    new_proxy.hold_replies()

    def limiter(timeout):
        return Limiter("10/day", name="slow", store=RedisStore(new_proxy.url, timeout=timeout, prefix=prefix))

    with ThreadPoolExecutor() as pool:
        hurried = pool.submit(limiter(0.5).hit, "a")
        eventually(lambda: new_proxy.connections)
        patient = pool.submit(limiter(30.0).hit, "a")
        assert isinstance(hurried.exception(), StoreTimeout)
        assert not patient.done()
        new_proxy.restore()
        assert patient.result().allowed
