"""How the tasks of an event loop wait for turns: on asyncio, and on trio, which httpx runs on as well."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from functools import partial
from typing import Any

from overlimit import _core, _steps, aio
from overlimit._core import Decision
from overlimit._messages.texts import short_repr
from overlimit.aio import AsyncLimiter
from overlimit.http.client import Charge, Waiting
from overlimit.limiter import Limiter
from overlimit.waiting.acquiring import Caller, acquiring, subjects_in


def as_limiter(given: Any, instead: str) -> Limiter:
    """Return the Limiter whose calls an AsyncLimiter awaits; TypeError for all else says what to write."""
    if isinstance(given, AsyncLimiter):
        return given._limiter
    hint = f": write {instead}" if isinstance(given, Limiter) else ""
    raise TypeError(f"limiter must be an overlimit.aio.AsyncLimiter, not {short_repr(given)}{hint}")


def waiting() -> Waiting:
    """Return how the tasks of the running event loop wait."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return ON_TRIO
    return ON_ASYNCIO


async def _acquire(charges: list[Charge], timeout: float | None) -> Decision:
    return await aio.acquire_all(
        [(AsyncLimiter._of(each), who, cost) for each, who, cost in charges], timeout
    )


def _ask(method: Callable[..., Any], limiter: Limiter, *arguments: Any, **named: Any) -> Any:
    return getattr(AsyncLimiter._of(limiter), method.__name__)(*arguments, **named)


ON_ASYNCIO = Waiting(asyncio.sleep, _acquire, _ask)


async def _sleep_on_trio(seconds: float) -> None:
    import trio

    await trio.sleep(seconds)


async def _ask_on_trio(method: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """Call a method; in another thread, and to its end, if the store has to be waited for."""
    import trio

    call = partial(method, *arguments, **named)
    if not arguments[0].store.waits:
        return call()
    with trio.CancelScope(shield=True):
        return await trio.to_thread.run_sync(call)


async def _acquire_on_trio(charges: list[Charge], timeout: float | None) -> Decision:
    checked = _core._checked_charges(charges)
    limiter = checked[0][0]

    async def ask(method: Callable[..., Any], *arguments: Any) -> Any:
        return await _ask_on_trio(lambda _, *given: method(*given), limiter, *arguments)

    caller = Caller(
        partial(ask, _core._hit_all_within, checked),
        partial(ask, _core._peek_all_within, checked),
        partial(_ask_on_trio, Limiter.refund, limiter),
        _TrioWakeUp,
    )
    return await _steps.await_calls(acquiring(subjects_in(checked), timeout, caller))


class _TrioWakeUp:
    """What wakes a sleeping task of trio; any thread may do so."""

    longest_sleep = 3600.0
    is_gone = False

    def __init__(self) -> None:
        import trio

        self.is_notified = False
        self._token, self._event = trio.lowlevel.current_trio_token(), trio.Event()

    def notify(self) -> None:
        self.is_notified = True
        self.set()

    def set(self) -> None:
        import trio

        with contextlib.suppress(trio.RunFinishedError):
            self._token.run_sync_soon(self._wake)

    def _wake(self) -> None:
        self._event.set()

    async def sleep(self, seconds: float) -> None:
        """Return when it was set since the last time, or the time is up."""
        import trio

        with trio.move_on_after(seconds):
            await self._event.wait()
        self._event = trio.Event()


ON_TRIO = Waiting(_sleep_on_trio, _acquire_on_trio, _ask_on_trio)
