"""A store that lies makes no crash and no hang, and what is decided follows from what it has shown."""

from __future__ import annotations

import asyncio
import contextlib
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import count, islice
from typing import Any

import pytest

from conformance.answers import answer_of
from overlimit import (
    FixedWindow,
    Limiter,
    ManualClock,
    Penalty,
    SlidingLog,
    StoreConfigError,
    StoreError,
    StoreTimeout,
    TokenBucket,
)
from overlimit.aio import AsyncLimiter
from overlimit.stores import Step, ValueStore, Write, values
from overlimit.stores.values import scanned
from own_stores import DictStore

LIMITS = [TokenBucket(5, per=10, burst=9), FixedWindow(20, per=60), SlidingLog(12, per=30)]
PENALTY = Penalty([5, 10])
WHO = "abcd"


class Liar(DictStore):
    """It tells lies of all kinds, and notes what it has shown when step ran for the last time."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.random = random.Random(seed)
        self.past: list[bytes] = []
        self.shown: dict[str, bytes | None] = {}
        self.kept: list[Step] = []

    def transact(self, keys: Sequence[str], step: Step) -> None:
        lie = self.random.choice(self.LIES)
        lie(self, keys, step)

    def show(self, step: Step, keys: Sequence[str], values: Sequence[bytes | None]) -> Any:
        writes = step(values)
        self.shown = dict(zip(keys, values, strict=True))
        self.past += [write.value for write in writes or () if write]
        return writes or [None] * len(keys)

    def write(self, keys: Sequence[str], writes: Sequence[Write | None]) -> None:
        self.values |= {key: write.value for key, write in zip(keys, writes, strict=True) if write}

    def held(self, keys: Sequence[str]) -> list[bytes | None]:
        return [self.values.get(key) for key in keys]

    def tells_the_truth(self, keys: Sequence[str], step: Step) -> None:
        self.write(keys, self.show(step, keys, self.held(keys)))

    def shows_others(self, keys: Sequence[str], step: Step) -> None:
        values = [self.random.choice([*self.past, None]) for _ in keys]
        self.write(keys, self.show(step, keys, values))

    def shows_parts(self, keys: Sequence[str], step: Step) -> None:
        values = [value and value[: self.random.randrange(len(value))] for value in self.held(keys)]
        self.write(keys, self.show(step, keys, values))

    def shows_noise(self, keys: Sequence[str], step: Step) -> None:
        values = [self.random.randbytes(self.random.randrange(80)) for _ in keys]
        self.write(keys, self.show(step, keys, values))

    def forgets(self, keys: Sequence[str], step: Step) -> None:
        self.show(step, keys, self.held(keys))

    def writes_half(self, keys: Sequence[str], step: Step) -> None:
        writes = self.show(step, keys, self.held(keys))
        self.write(keys[:1], writes[:1])

    def writes_elsewhere(self, keys: Sequence[str], step: Step) -> None:
        writes = self.show(step, keys, self.held(keys))
        self.write([*reversed(keys)], writes)

    def asks_again(self, keys: Sequence[str], step: Step) -> None:
        first = self.show(step, keys, self.held(keys))
        self.show(step, keys, [self.random.choice([*self.past, None]) for _ in keys])
        self.write(keys, first)

    def asks_in_a_thread(self, keys: Sequence[str], step: Step) -> None:
        thread = threading.Thread(target=self.tells_the_truth, args=(keys, step))
        thread.start()
        thread.join()

    def swallows(self, keys: Sequence[str], step: Step) -> None:
        with contextlib.suppress(ValueError):
            step([b""] * (len(keys) + 1))
        self.tells_the_truth(keys, step)

    def asks_nothing(self, keys: Sequence[str], step: Step) -> None:
        self.kept.append(step)

    def raises(self, keys: Sequence[str], step: Step) -> None:
        self.tells_the_truth(keys, step)
        raise self.random.choice([OSError("gone"), TimeoutError(), self.NotWritten()])

    def asks_when_it_is_over(self, keys: Sequence[str], step: Step) -> None:
        for each in self.kept:
            with pytest.raises(RuntimeError, match="over"):
                each([None])
        self.kept.append(step)
        self.tells_the_truth(keys, step)

    LIES = (
        *[tells_the_truth] * 6,
        *(shows_others, shows_parts, shows_noise, forgets, writes_half, writes_elsewhere, asks_again),
        *(asks_in_a_thread, swallows, asks_nothing, raises, asks_when_it_is_over),
    )


def limiter_on(store: ValueStore, clock: ManualClock) -> Limiter:
    return Limiter(LIMITS, name="p", store=store, clock=clock, penalty=PENALTY)


@pytest.mark.parametrize("seed", range(8))
def test_each_decision_is_one_on_the_values_that_were_shown(seed: int):
    liar, clock, chance = Liar(seed), ManualClock(1_700_000_000), random.Random(seed)
    limiter = limiter_on(liar, clock)
    decided = failed = refused = 0
    for _ in range(250):
        clock.advance(chance.choice([0, 0, 0.5, 3]))
        who, cost = chance.sample(WHO, chance.choice([1, 1, 3])), chance.choice([0, 1, 1, 4])
        ask = chance.choice([Limiter.hit, Limiter.hit, Limiter.peek, Limiter.charge])
        try:
            decision = ask(limiter, *who, cost=cost)
        except (StoreError, ValueError):
            failed += 1
            continue
        decided += 1
        refused += not decision
        honest = DictStore()
        honest.values = {key: value for key, value in liar.shown.items() if value is not None}
        assert answer_of(decision) == answer_of(ask(limiter_on(honest, clock), *who, cost=cost))
        if chance.random() < 0.2:
            try:
                limiter.refund(decision)
            except (StoreError, ValueError):
                failed += 1
    assert min(decided, failed, refused) > 10


def test_honest_keys_keep_their_limit():
    class HalfLiar(DictStore):
        def transact(self, keys: Sequence[str], step: Step) -> None:
            step([b"noise" if key == "p:liar" else self.values.get(key) for key in keys])
            super().transact(keys, step)
            self.values.pop("p:liar", None)

    limiter = Limiter("5/minute", name="p", store=HalfLiar())
    decisions = [limiter.hit("liar", "honest").allowed for _ in range(9)]
    assert decisions == [True] * 5 + [False] * 4
    assert limiter.peek("liar", cost=0).remaining == 5


class Abandoning(DictStore):
    """It leaves a thread that reads values without end, until `go_on` is set."""

    timeout = 0.2

    def __init__(self, *, asks_itself: bool) -> None:
        super().__init__()
        self.asks_itself = asks_itself
        self.inside, self.go_on = threading.Event(), threading.Event()
        self.outcome: object = None

    def transact(self, keys: Sequence[str], step: Step) -> None:
        self.thread = threading.Thread(target=self.ask_slowly, args=(step,))
        self.thread.start()
        assert self.inside.wait(10)
        if self.asks_itself:
            super().transact(keys, step)
        else:
            self.thread.join()

    def ask_slowly(self, step: Step) -> None:
        try:
            self.outcome = step(self.slow())
        except Exception as error:
            self.outcome = error

    def slow(self) -> Iterator[None]:
        self.inside.set()
        self.go_on.wait(10)
        yield None

    def end(self) -> object:
        self.go_on.set()
        self.thread.join()
        return self.outcome


def test_who_still_reads_values_keeps_nobody_waiting_and_comes_too_late():
    store = Abandoning(asks_itself=True)
    limiter = Limiter("5/minute", name="p", store=store)
    began = time.monotonic()
    assert limiter.hit("a").remaining == 4
    assert time.monotonic() - began < 5
    late = store.end()
    assert isinstance(late, RuntimeError)
    assert "over" in str(late)
    assert limiter.peek("a", cost=0).remaining == 4


def test_a_task_leaves_values_that_are_still_read_when_its_time_is_over():
    async def main() -> object:
        store = Abandoning(asks_itself=False)
        began = time.monotonic()
        with pytest.raises(StoreTimeout) as raised:
            await AsyncLimiter("5/minute", name="p", store=store).hit("a")
        assert 0.2 <= time.monotonic() - began < 5
        assert not raised.value.maybe_charged
        return store.end()

    late = asyncio.run(main())
    assert isinstance(late, RuntimeError)
    assert "over" in str(late)


def test_values_that_are_read_beyond_the_time_of_the_call_charge_nothing():
    class Slow(DictStore):
        timeout = 0.05

        def transact(self, keys: Sequence[str], step: Step) -> None:
            step(time.sleep(0.1) for _ in keys)

    with pytest.raises(StoreTimeout) as raised:
        Limiter("5/minute", name="p", store=Slow()).hit("a")
    assert not raised.value.maybe_charged


@pytest.mark.parametrize("asks", ["limiter.hit('a')", "asyncio.run(waiting.hit('a'))"])
def test_a_process_ends_while_values_are_read(asks: str):
    program = f"""
import asyncio, threading, time
from overlimit import Limiter
from overlimit.aio import AsyncLimiter
from overlimit.stores import ValueStore

class Slow(ValueStore):
    timeout = 0.1

    async def transact_async(self, keys, step):
        threading.Thread(target=self.transact, args=(keys, step), daemon=True).start()
        await asyncio.sleep(60)

    def transact(self, keys, step):
        inside.set()
        step(time.sleep(0.002) for _ in iter(int, 1))

inside = threading.Event()
limiter, waiting = [kind("5/minute", name="p", store=Slow()) for kind in (Limiter, AsyncLimiter)]
threading.Thread(target=lambda: {asks}, daemon=True).start()
inside.wait(30)
"""
    ended = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, timeout=60)
    assert (ended.returncode, ended.stdout) == (0, b"")


@pytest.mark.parametrize("returned", [None, 7, "x", [b"x"]])
def test_what_transact_returns_counts_for_nothing(returned: Any):
    class Chatty(DictStore):
        def transact(self, keys: Sequence[str], step: Step) -> Any:
            super().transact(keys, step)
            return returned

    limiter = Limiter("1/minute", name="p", store=Chatty())
    assert [limiter.hit("a").allowed, limiter.hit("a").allowed] == [True, False]


@pytest.mark.parametrize(
    ("attribute", "value"),
    [("max_keys", 0), ("max_keys", "many"), ("max_keys", None), ("timeout", "long"), ("timeout", [])],
)
def test_attributes_that_say_nothing_are_errors(attribute: str, value: Any):
    store = DictStore()
    setattr(store, attribute, value)
    with pytest.raises((TypeError, ValueError)):
        Limiter("5/minute", name="p", store=store).hit("a")
    assert not store.values


def test_what_a_scan_invents_is_left_alone():
    class Inventive(DictStore):
        def scan(self, prefix: str) -> Any:
            return [*super().scan(prefix), ("q:a", b""), (prefix + "é", b""), (prefix + "gone", b"")]

    store = Inventive()
    limiters: list[Callable[..., Any]] = [Limiter("1/minute", name=name, store=store).hit for name in "pq"]
    assert [hit("a").allowed for hit in limiters] == [True, True]
    Limiter("1/minute", name="p", store=store).reset_all()
    assert [hit("a").allowed for hit in limiters] == [True, False]


def test_a_scan_without_end_ends_with_the_time_of_a_call():
    class Endless(DictStore):
        timeout = 0.2

        def scan(self, prefix: str) -> Iterator[tuple[str, bytes]]:
            yield from ((prefix + each, b"") for each in ("x" * 5000, "\ud800", "a b"))
            while True:
                yield prefix + "a", b""

    store = Endless()
    began = time.monotonic()
    with pytest.raises(StoreTimeout, match=r"Endless\.scan failed: .* no more keys"):
        Limiter("1/minute", name="p", store=store).reset_all()
    assert 0.2 <= time.monotonic() - began < 5
    with pytest.raises(StoreTimeout):
        [*scanned(store, "p:")]
    assert [key for key, _ in islice(scanned(store, "p:"), 1)] == ["p:a"]


@pytest.mark.parametrize(
    ("pause", "error", "told", "seconds"),
    [
        (0.0, StoreConfigError, "more than 1,000 keys", 0.0),
        (0.01, StoreTimeout, "no end within 2 seconds", 2.0),
    ],
)
def test_a_scan_that_finds_ever_more_keys_ends(monkeypatch, pause, error, told, seconds):
    class Growing(DictStore):
        timeout = 0.02

        def scan(self, prefix: str) -> Iterator[tuple[str, bytes]]:
            for number in count():
                time.sleep(pause)
                yield f"{prefix}{number}", b""

    monkeypatch.setattr(values, "_MOST_SCANNED", 1000)
    monkeypatch.setattr(values, "_LONGEST_SCAN", 0.5)
    began = time.monotonic()
    with pytest.raises(error, match=told):
        Limiter("1/minute", name="p", store=Growing()).reset_all()
    assert seconds <= time.monotonic() - began < seconds + 5


def test_one_that_asks_its_own_limiter_ends_as_any_recursion():
    class Narcissus(DictStore):
        def transact(self, keys: Sequence[str], step: Step) -> None:
            limiter.hit("a")

    limiter = Limiter("1/minute", name="p", store=Narcissus())
    with pytest.raises((StoreError, RecursionError)):
        limiter.hit("a")
