"""What pickles comes back with all it says; a damaged pickle gives an exception, or an object that works."""

from __future__ import annotations

import copy
import itertools
import pickle
import time

import pytest

from overlimit import (
    FixedWindow,
    LeakyBucket,
    Limiter,
    ManualClock,
    MemoryStore,
    Penalty,
    RateLimitExceeded,
    RedisStore,
    SlidingWindow,
    TokenBucket,
)
from overlimit import flask as overlimit_flask
from overlimit.flask.errors import StoreFailed
from overlimit.recipes import Counter, PeriodLimit, TokenLimiter

DECISION = Limiter("1/minute", name="p", store=MemoryStore(), clock=ManualClock(5)).hit("a")
OBJECTS = [
    FixedWindow(5, "day", start="calendar", timezone="Europe/Rome"),
    SlidingWindow(5, per=60, precision=10, name="n"),
    TokenBucket(1, per=2, burst=3, refill="interval", start="epoch", debt=2, name="n"),
    LeakyBucket(1, per=2, capacity=3, name="n"),
    Penalty([1, 2], extend=True),
    RateLimitExceeded(DECISION),
    overlimit_flask.RateLimitExceeded(DECISION, violated=["p"]),
    StoreFailed(DECISION),
    Limiter("5/minute", name="x", penalty=Penalty(5)),
    RedisStore("redis://127.0.0.1:1/2", prefix="own"),
    Counter(5, 60),
    PeriodLimit(60, 3),
    TokenLimiter(1, 2),
]
EACH = pytest.mark.parametrize(
    "one", OBJECTS, ids=lambda one: type(one).__module__ + "." + type(one).__name__
)
WAYS = [
    *(lambda one, protocol=p: pickle.loads(pickle.dumps(one, protocol)) for p in range(2, 6)),
    copy.copy,
    copy.deepcopy,
]


@EACH
def test_comes_back_with_all_it_says(one):
    for twin in (way(one) for way in WAYS):
        assert type(twin) is type(one)
        assert (repr(twin), str(twin)) == (repr(one), str(one))
        assert getattr(twin, "decision", None) == getattr(one, "decision", None)


def test_a_manual_clock_is_nobodys_to_copy():
    for way in WAYS:
        with pytest.raises(TypeError, match="shared by all who hold it"):
            way(ManualClock(5))


def test_a_memory_store_does_not_pickle_and_says_what_does_and_its_copy_is_the_store_itself():
    store = MemoryStore()
    for one, way in itertools.product((store, Limiter("5/minute", store=store)), WAYS[:4]):
        with pytest.raises(TypeError, match="a Limiter with store='memory://' can be"):
            way(one)
    assert all(way([store])[0] is store for way in (copy.copy, copy.deepcopy))
    for clock in (None, time.time):
        limiter = Limiter("2/minute", name="pickled", clock=clock)
        limiter.hit("a")
        assert pickle.loads(pickle.dumps(limiter)).hit("a").remaining == 0


@pytest.mark.check
@EACH
def test_with_a_bit_changed_it_works_or_is_refused(one):
    """Loaded by the Python version, which makes no table of as many entries as a damaged number says."""
    payload = pickle.dumps(one)
    for at in range(len(payload)):
        damaged = bytearray(payload)
        damaged[at] ^= 1 << at % 8
        for use in (repr, str, hash, lambda it: it == one, lambda it: it.peek("a")):
            try:
                use(pickle._loads(bytes(damaged)))
            except SystemError:
                raise
            except Exception:
                continue
