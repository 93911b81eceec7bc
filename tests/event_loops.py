"""Limiters that are awaited on an event loop of another thread, for tests that call a Limiter."""

from __future__ import annotations

import asyncio
import inspect
import os
import threading
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from overlimit import Limiter
from overlimit._core import CallsOfLoop, PendingCall
from overlimit.aio import AsyncLimiter

LONGEST_TURN = 0.02
"""Seconds that the package promises not to block an event loop for."""

TICK = 0.002


class Ticks:
    """A task of an event loop that measures how long the others kept it from running."""

    def __init__(self) -> None:
        self.longest_turn = 0.0

    async def run(self) -> None:
        """Measure until cancelled."""
        while True:
            expected, waited = time.monotonic() + TICK, _seconds_without_processor()
            await asyncio.sleep(TICK)
            late = time.monotonic() - expected - (_seconds_without_processor() - waited)
            self.longest_turn = max(self.longest_turn, late)

    def assert_free(self) -> None:
        """No turn took longer than promised."""
        assert_short(self.longest_turn)


def assert_short(turn: float) -> None:
    """It took no longer than promised; ten times as long where a test shares the machine."""
    assert turn < (LONGEST_TURN if "PROVE" in os.environ else 10 * LONGEST_TURN)


def _seconds_without_processor() -> float:
    """How long this thread could have run but had no processor, so far."""
    try:
        return int(Path("/proc/thread-self/schedstat").read_text(encoding="ascii").split()[1]) / 1e9
    except OSError:
        return 0.0


class TimedCalls(CallsOfLoop):
    """The calls of a loop, which notes how long it keeps the loop at most; it does so with the GIL."""

    longest_turn = 0.0

    def begin(self, call: PendingCall) -> list[PendingCall]:
        return self._timed(super().begin, call)

    def run(self) -> list[PendingCall]:
        return self._timed(super().run)

    def cancel(self, call: PendingCall) -> list[PendingCall]:
        return self._timed(super().cancel, call)

    @classmethod
    def _timed(cls, function: Callable[..., list[PendingCall]], *arguments: PendingCall) -> list[PendingCall]:
        began = time.monotonic()
        try:
            return function(*arguments)
        finally:
            TimedCalls.longest_turn = max(TimedCalls.longest_turn, time.monotonic() - began)


class LoopThread:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Return or raise what a coroutine does."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result()

    def stop(self) -> None:
        """End the loop and its thread."""
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()


class AwaitedLimiter:
    """Calls an AsyncLimiter on an event loop as if it were a Limiter."""

    def __init__(self, loop: LoopThread, limits: Any, **options: Any) -> None:
        self._loop, self.awaited = loop, AsyncLimiter(limits, **options)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.awaited if hasattr(self.awaited, name) else self.awaited._limiter, name)
        if not inspect.iscoroutinefunction(found):
            return found
        return lambda *args, **kwargs: self._loop.run(found(*args, **kwargs))


AnyLimiter = Limiter | AwaitedLimiter


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run what uses ``make_limiter`` under calls of threads and under calls that an event loop awaits."""
    if "make_limiter" in metafunc.fixturenames:
        only_threads = metafunc.definition.get_closest_marker("only_threads")
        ways = ["threads"] if only_threads else ["threads", "tasks"]
        metafunc.parametrize("make_limiter", ways, indirect=True)
