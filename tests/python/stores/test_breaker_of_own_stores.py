"""The breaker of a store of one's own: when it is not asked, and when it is asked again."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from overlimit import Limiter, StoreError, StoreTimeout, StoreUnavailable
from overlimit.aio import AsyncLimiter
from overlimit.stores import Step
from own_stores import DictStore


class DownStore(DictStore):
    """It fails while ``error`` is set, and counts how often it is asked."""

    def __init__(self, error: BaseException | None) -> None:
        super().__init__()
        self.error = error
        self.asked = 0

    def transact(self, keys: Sequence[str], step: Step) -> None:
        self.asked += 1
        if self.error is not None:
            raise self.error
        super().transact(keys, step)


def limiter_on(store: DownStore, **options: Any) -> Limiter:
    return Limiter("100/minute", name="p", store=store, **options)


def failed(calls: int, call: Callable[[], object]) -> None:
    for _ in range(calls):
        with pytest.raises(StoreError):
            call()


def fails_at_once(call: Callable[[], object]) -> StoreUnavailable:
    """Return the error of a call that is not let go: of several, as one may be the probe."""
    for _ in range(20):
        with pytest.raises(StoreError) as raised:
            call()
        if "gone; calls fail at once until a probe is answered" in str(raised.value):
            assert type(raised.value) is StoreUnavailable
            return raised.value
    raise AssertionError("all calls were let go")


@pytest.mark.parametrize("error", [ConnectionError("gone"), TimeoutError("gone")], ids=repr)
def test_a_store_that_fails_is_asked_seldom_and_serves_again_once_it_can(error):
    store = DownStore(error)
    limiter = limiter_on(store)
    failed(19, lambda: limiter.hit("a"))
    assert limiter.stats()["breaker"] == "closed"
    failed(1, lambda: limiter.hit("a"))
    assert limiter.stats()["breaker"] == "open"
    began, asked = time.monotonic(), store.asked
    assert not fails_at_once(lambda: limiter.hit("a")).maybe_charged
    failed(1000, lambda: limiter.hit("a"))
    assert store.asked - asked <= 1 + (time.monotonic() - began) / 0.08
    store.error = None
    began = time.monotonic()
    while limiter.stats()["breaker"] != "closed":
        assert time.monotonic() - began < 20
        time.sleep(0.01)
        limiter_on(store, on_error="allow").hit("b")
    assert limiter.hit("a").remaining == 99


def test_a_limiter_with_another_policy_on_error_answers_meanwhile():
    store = DownStore(OSError("gone"))
    limiter = limiter_on(store, on_error="allow")
    assert all(limiter.hit("a") for _ in range(200))
    assert 20 <= store.asked < 100


@pytest.mark.parametrize("error", [KeyboardInterrupt(), None], ids=repr)
def test_what_says_nothing_of_the_store_opens_nothing(error):
    store = DownStore(error)
    store.max_keys = 1
    limiter, wrong = limiter_on(store), KeyboardInterrupt if error else StoreError
    for _ in range(100):
        with pytest.raises(wrong):
            limiter.hit("a", "b" if error is None else "a")
    store.error = None
    assert limiter.stats()["breaker"] == "closed"
    assert limiter.hit("a").remaining == 99


def test_a_probe_that_is_interrupted_is_followed_by_another():
    store = DownStore(OSError("gone"))
    limiter = limiter_on(store)
    failed(20, lambda: limiter.hit("a"))
    store.error = KeyboardInterrupt()
    interrupted, began = 0, time.monotonic()
    while interrupted < 2 and time.monotonic() - began < 20:
        try:
            limiter.hit("a")
        except KeyboardInterrupt:
            interrupted += 1
        except StoreUnavailable:
            time.sleep(0.01)
    assert interrupted == 2


def test_tasks_share_it_with_threads():
    store = DownStore(OSError("gone"))
    limiter = AsyncLimiter("100/minute", name="p", store=store)

    async def main() -> None:
        answers = await asyncio.gather(*(limiter.hit("a") for _ in range(20)), return_exceptions=True)
        assert {type(answer) for answer in answers} == {StoreUnavailable}
        assert (await limiter.stats())["breaker"] == "open"

    asyncio.run(main())
    fails_at_once(lambda: limiter_on(store).hit("a"))
    fails_at_once(lambda: asyncio.run(limiter.hit("a")))


def test_a_call_that_waits_as_the_probe_holds_up_nobody():
    class StuckStore(DownStore):
        def transact(self, keys: Sequence[str], step: Step) -> None:
            if self.error is None:
                self.asked += 1
                time.sleep(step.time_left())
            super().transact(keys, step)

    store = StuckStore(OSError("gone"))
    store.timeout = 1.0
    limiter = AsyncLimiter("100/minute", name="p", store=store)

    async def main() -> None:
        await asyncio.gather(*(limiter.hit("a") for _ in range(20)), return_exceptions=True)
        store.error, store.asked = None, 0
        await asyncio.sleep(0.15)
        answers = await asyncio.gather(*(limiter.hit("a") for _ in range(50)), return_exceptions=True)
        assert sum(isinstance(answer, StoreTimeout) for answer in answers) == 1
        assert sum(isinstance(answer, StoreUnavailable) for answer in answers) == 49

    asyncio.run(main())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
def test_a_child_begins_with_a_closed_one():
    store = DownStore(OSError("gone"))
    limiter = limiter_on(store)
    failed(20, lambda: limiter.hit("a"))
    store.error = None
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if limiter.hit("a").remaining == 99 else 1)
        finally:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    assert limiter.stats()["breaker"] == "open"
