"""Limiters of one name on one store share their counts; a warning tells when that looks like a mistake.

docs/reference/limiter.md, names.
"""

from __future__ import annotations

import logging

import pytest

from overlimit import (
    FixedWindow,
    Limiter,
    MemoryStore,
    RedisStore,
    SlidingWindow,
    TokenBucket,
    hit_all,
)
from servers.patience import PATIENCE


@pytest.fixture
def warnings(caplog):
    """Return a function that returns the warnings so far."""
    caplog.set_level(logging.DEBUG, logger="overlimit")
    return lambda: [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]


class TestTheSecondOfAName:
    def test_with_another_number_is_warned_of_once_at_its_first_call(self, build, warnings):
        first, second = build("5/minute", name="login"), build("10/minute", name="login")
        first.hit("a")
        assert warnings() == []
        second.hit("a")
        (message,) = warnings()
        assert all(part in message for part in ("'login'", repr(first.store), "name="))
        assert message.index(repr(first.limits[0])) < message.index(repr(second.limits[0]))
        for limiter in (first, second, first):
            limiter.hit("a")
        assert len(warnings()) == 1

    def test_that_one_of_them_is_updated_is_warned_of_at_its_next_call(self, build, warnings):
        limiters = first, second = build("5/minute", name="login"), build("5/minute", name="login")
        for limiter in limiters:
            limiter.hit("a")
        first.update("10/minute")
        assert (first.peek("a").remaining, second.peek("a").remaining) == (7, 2)
        assert len(warnings()) == 1
        for limiter in limiters:
            limiter.update("20/minute")
        for limiter in limiters:
            limiter.hit("a")
        assert len(warnings()) == 1

    @pytest.mark.parametrize(
        "ask",
        [
            lambda limiter: limiter.peek("a"),
            lambda limiter: limiter.acquire("a"),
            lambda limiter: hit_all([(limiter, "a", 1)]),
            lambda limiter: limiter.lock("a", 1),
            lambda limiter: limiter.reset("a"),
        ],
    )
    def test_is_compared_whatever_its_first_call_is(self, build, warnings, ask):
        first, second = build("5/minute"), build("10/minute")
        ask(second)
        assert len(warnings()) == 1
        ask(first)
        assert len(warnings()) == 1

    @pytest.mark.parametrize(
        ("limits", "others", "warned"),
        [
            ("5/minute", "5/minute", 0),
            ("5/minute", "10/hour", 0),
            ("5/minute", ["5/minute", "10/hour"], 0),
            (["10/hour", "5/minute"], ["5/minute", "10/hour"], 0),
            (SlidingWindow(5, 60), FixedWindow(10, 60), 0),
            (SlidingWindow(5, 60), SlidingWindow(10, 60, precision=1), 0),
            (SlidingWindow(5, 60), SlidingWindow(5, 60, precision=1.2), 0),
            (SlidingWindow(5, 60, name="one"), SlidingWindow(10, 60, name="other"), 0),
            (FixedWindow(5, 60), FixedWindow(6, 60, start="epoch"), 0),
            (TokenBucket(5, per=1), TokenBucket(5, per=1, burst=5), 0),
            ("5/minute", ["10/hour", "6/minute"], 1),
            (["10/hour", "5/minute"], ["5/minute", "11/hour"], 1),
            (SlidingWindow(5, 60), SlidingWindow(6, 60, precision=1.2), 1),
            (FixedWindow(5, "day", start="calendar"), FixedWindow(6, "day", start="calendar"), 1),
            (TokenBucket(5, per=1, burst=5), TokenBucket(5, per=1, burst=6), 1),
            (TokenBucket(5, per=1, burst=5), TokenBucket(5, per=1, burst=5, debt=1), 1),
            ([SlidingWindow(5, 60), SlidingWindow(6, 60)], [SlidingWindow(6, 60), SlidingWindow(5, 60)], 1),
        ],
    )
    def test_is_warned_of_once_if_it_contradicts_a_limit(self, build, warnings, limits, others, warned):
        first, second = build(limits), build(others)
        for limiter in (first, second):
            limiter.hit("a")
        assert len(warnings()) == warned


class TestWhereNothingIsShared:
    @pytest.mark.parametrize("how", ["other names", "no names", "other stores"])
    def test_nothing_is_said(self, warnings, how):
        one_store, limiters = MemoryStore(), []
        for number in range(1, 5):
            name = {"other names": f"number-{number}", "no names": None, "other stores": "login"}[how]
            store = MemoryStore() if how == "other stores" else one_store
            limiters.append(Limiter(f"{number}/minute", name=name, store=store))
        for limiter in limiters:
            limiter.hit("a")
        assert warnings() == []

    def test_nothing_is_said_of_other_keys_in_one_redis(self, redis_server, prefix, warnings):
        options = [{"prefix": prefix}, {"prefix": prefix + "x"}, {"prefix": prefix, "hash_identifiers": True}]
        stores = [RedisStore(redis_server.unix_url(), timeout=PATIENCE, **each) for each in options]
        stores.append(RedisStore(redis_server.unix_url(5), timeout=PATIENCE, prefix=prefix))
        limiters = [Limiter(f"{n}/minute", name="login", store=store) for n, store in enumerate(stores, 1)]
        for limiter in limiters:
            limiter.hit("a")
        assert warnings() == []


def test_two_store_objects_with_the_same_keys_are_one_store(redis_server, prefix, warnings):
    url = redis_server.unix_url()
    one, other = (RedisStore(url, timeout=timeout, prefix=prefix) for timeout in (PATIENCE, PATIENCE + 1))
    first, second = Limiter("2/minute", name="a", store=one), Limiter("3/minute", name="a", store=other)
    assert (first.hit("x").remaining, second.hit("x").remaining) == (1, 1)
    assert len(warnings()) == 1


def test_many_that_come_and_go_are_forgotten(build, warnings):
    kept = build("5/minute")
    for _ in range(2000):
        build("10/minute")
    assert len(kept._namesakes.number_of) == 1
    build("10/minute").hit("a")
    assert len(warnings()) == 1
