"""What the log says of a store that fails and comes back: enough to act on, and no flood."""

from __future__ import annotations

import asyncio
import logging
from contextlib import closing

import pytest

from overlimit import Limiter, ManualClock, RedisStore, StoreError
from overlimit._logging import stores
from overlimit.aio import AsyncLimiter
from servers.patience import PATIENCE

from .outages import eventually

MODES = ["allow", "deny", "local"]


@pytest.fixture
def nowhere(prefix):
    """Return a store that never answers, and that no other test has failed to reach."""
    return RedisStore(f"unix:///nowhere/{prefix}.sock")


@pytest.fixture
def messages(caplog):
    """Return a function that gives what was logged so far by overlimit."""
    caplog.set_level(logging.DEBUG, logger="overlimit")
    return lambda: [record.getMessage() for record in caplog.records if record.name == "overlimit"]


class TestAFailure:
    @pytest.mark.parametrize("on_error", MODES)
    def test_is_told_once_with_the_store_the_reason_and_what_decides(self, nowhere, messages, on_error):
        limiter = Limiter("3/minute", name="default", store=nowhere, on_error=on_error)
        for _ in range(50):
            limiter.hit("a")
            limiter.peek("a")
        (message,) = messages()
        assert message.startswith(f"{nowhere!r} fails (unavailable), so on_error='{on_error}' decides: ")
        assert "No such file" in message

    def test_that_is_raised_speaks_for_itself(self, nowhere, messages):
        limiter = Limiter("3/minute", name="default", store=nowhere)
        for call in (lambda: limiter.hit("a"), lambda: limiter.reset("a"), lambda: limiter.lock("a", 1)):
            with pytest.raises(StoreError):
                call()
        assert messages() == []

    def test_is_told_once_for_all_stores_at_one_endpoint(self, messages, prefix):
        url = f"unix:///elsewhere/{prefix}.sock"
        for timeout in (0.1, 0.2, 0.3):
            store = RedisStore(url, timeout=timeout, prefix=f"p{timeout}")
            Limiter("3/minute", name="default", store=store, on_error="allow").hit("a")
        assert len(messages()) == 1

    def test_is_told_again_after_ten_seconds_with_the_number_of_those_in_between(
        self, nowhere, messages, monkeypatch
    ):
        clock = ManualClock(start=0)
        monkeypatch.setattr(stores, "_outages", stores._Outages(clock.now))
        limiter = Limiter("3/minute", name="default", store=nowhere, on_error="allow")
        for _ in range(5):
            limiter.hit("a")
        clock.advance(9.999)
        limiter.hit("a")
        assert len(messages()) == 1
        clock.advance(0.001)
        limiter.hit("a")
        assert len(messages()) == 2
        assert "more like it" not in messages()[0]
        assert messages()[1].endswith("(5 more like it were not logged)")

    def test_of_another_kind_is_told_at_once(self, start_redis, messages):
        server = start_redis(password="old-secret")
        store = RedisStore(server.tcp_url(), timeout=5.0)
        limiter = Limiter("3/minute", name="default", store=store, on_error="allow")
        assert limiter.hit("a").source == "store"
        server.stop()
        eventually(lambda: limiter.hit("a").source, lambda source: source == "error")
        start_redis(password="new-secret", port=server.port)
        eventually(lambda: limiter.hit("a") and limiter.stats()["errors"]["config"], bool)
        kinds = [message.partition(" fails (")[2].partition(")")[0] for message in messages()]
        assert kinds[0] == "unavailable"
        assert "config" in kinds
        assert len(set(kinds)) == len(kinds)
        assert "secret" not in "".join(messages())


class TestAnAnswer:
    def test_after_a_failure_is_told_once_for_all_limiters(self, start_redis, messages):
        server = start_redis()
        store = RedisStore(server.tcp_url(), timeout=5.0)
        limiters = [Limiter("9/minute", name=on, store=store, on_error=on) for on in MODES]
        assert [limiter.hit("a").source for limiter in limiters] == ["store"] * 3
        server.stop()
        for limiter in limiters:
            eventually(lambda limiter=limiter: limiter.hit("a").source, lambda source: source != "store")
        assert len(messages()) == 1
        start_redis(port=server.port)
        for limiter in limiters:
            eventually(lambda limiter=limiter: limiter.hit("a").source, lambda source: source == "store")
        assert len(messages()) == 2
        assert messages()[1].startswith(f"{store!r} answers again, after ")
        failed = max(limiter.stats()["errors"]["unavailable"] for limiter in limiters)
        total = sum(sum(limiter.stats()["errors"].values()) for limiter in limiters)
        assert failed <= int(messages()[1].split()[-3]) <= total

    @pytest.mark.parametrize("awaits", [False, True])
    def test_of_nobody_who_was_asked_is_none(self, start_redis, prefix, messages, awaits):
        server = start_redis()
        store = RedisStore(server.tcp_url(), timeout=PATIENCE, prefix=prefix, max_stale=60)
        limiter = Limiter("1/hour", name="default", store=store, on_error="allow")
        with closing(asyncio.new_event_loop()) as loop:
            awaited = AsyncLimiter("1/hour", name="default", store=store, on_error="allow")

            def hit(identifier):
                if not awaits:
                    return limiter.hit_many([identifier])[0].source
                return loop.run_until_complete(awaited.hit(identifier)).source

            assert [hit("a"), hit("a"), hit("a")] == ["store", "store", "refusal"]
            server.stop()
            eventually(lambda: hit("b"), lambda source: source == "error")
            assert [hit("a") for _ in range(5)] == ["refusal"] * 5
            hit("b")
            (message,) = messages()
            assert " fails (" in message
            start_redis(port=server.port)
            eventually(lambda: hit("b"), lambda source: source == "store")
            assert [" answers again, after " in each for each in messages()] == [False, True]
