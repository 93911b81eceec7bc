"""Waiting for a limit: ``Limiter.acquire``.

Who waits sleeps until the exact instant at which the limiter said to come back, or until something happens in
this process that may let it in earlier: something was given back, or the one before it has gone. Among those who
wait with one limiter for a common identifier, the first come is the first served.
"""

from __future__ import annotations

import math
import os
import threading
import time
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING

from overlimit.clocks import ManualClock
from overlimit.limits import LeakyBucket

if TYPE_CHECKING:
    from overlimit._core import Decision, Store
    from overlimit.limiter import Limiter

__all__ = ["acquire", "tell_waiters"]

_LONGEST_US = 2**49


def acquire(limiter: Limiter, identifiers: tuple[str | bytes, ...], cost: int, timeout: float) -> Decision:
    """Wait until a hit is allowed and its delay is over; see ``Limiter.acquire``."""
    watch = _watch_of(limiter)
    turn = _Turn(limiter, identifiers, cost, watch, watch.now() + _timeout_us(timeout))
    with turn:
        decision = turn.decision()
    if decision.delay > 0:
        try:
            watch.wait(_Call(), watch.now() + _us(decision.delay))
        except BaseException:
            limiter.refund(decision)
            raise
    return decision


def tell_waiters(store: Store) -> None:
    """Let everybody who waits for a limiter on this store try again now."""
    with _lock:
        for turn in _queues.get(store, ()):
            turn.call.give()


class _Call:
    """What a sleeper is woken by: news, or a clock that was moved."""

    def __init__(self) -> None:
        self.event = threading.Event()
        self.news = False

    def give(self) -> None:
        self.news = True
        self.event.set()


class _Watch:
    """A limiter's clock in whole microseconds, and how to sleep by it."""

    def __init__(self, now: Callable[[], float], manual: ManualClock | None) -> None:
        self._now, self._manual = now, manual

    def now(self) -> int:
        return _us(self._now())

    def wait(self, call: _Call, until: int) -> None:
        """Return at an instant, or earlier when there are news."""
        if self._manual is not None:
            self._manual._watch(call.event)
        try:
            while not call.news and (left := until - self.now()) > 0:
                call.event.wait(None if self._manual else left / 1e6)
                call.event.clear()
        finally:
            if self._manual is not None:
                self._manual._unwatch(call.event)


def _watch_of(limiter: Limiter) -> _Watch:
    clock = limiter.clock
    if clock is None:
        return _Watch(time.monotonic, None)
    return _Watch(getattr(clock, "now", clock), clock if isinstance(clock, ManualClock) else None)


class _Turn:
    """One caller in the queue of a store; a context that joins and leaves it."""

    def __init__(
        self, limiter: Limiter, identifiers: tuple[str | bytes, ...], cost: int, watch: _Watch, deadline: int
    ) -> None:
        self.call = _Call()
        self._limiter, self._identifiers, self._cost = limiter, identifiers, cost
        self._watch, self._deadline = watch, deadline
        self._keys = {_bytes_of(identifier) for identifier in identifiers}

    def __enter__(self) -> _Turn:
        with _lock:
            self._queue = _queues.setdefault(self._limiter.store, [])
            self._queue.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        with _lock:
            self._queue.remove(self)
            for turn in self._queue:
                turn.call.give()

    def decision(self) -> Decision:
        """The admission, or the refusal as soon as it's certain that the deadline cannot be met."""
        while True:
            self.call.news = False
            left = self._deadline - self._watch.now()
            if left <= 0 or self._is_first():
                decision = self._limiter._hit_within(
                    *self._identifiers, cost=self._cost, patience=max(0, left) / 1e6
                )
                if decision or self._is_vain(decision, left):
                    return decision
                until = self._watch.now() + _us(decision.retry_after)
            else:
                decision = self._limiter.peek(*self._identifiers, cost=self._cost)
                if not decision and _us(decision.retry_after) > left:
                    return decision
                until = self._deadline
            self._watch.wait(self.call, until)

    def _is_first(self) -> bool:
        """Whether nobody who came earlier waits with this limiter for one of these identifiers."""
        with _lock:
            earlier = self._queue[: self._queue.index(self)]
        return not any(turn._limiter is self._limiter and turn._keys & self._keys for turn in earlier)

    def _is_vain(self, refusal: Decision, left: int) -> bool:
        """Whether waiting does not help: it takes too long, or it's the delay afterwards that does."""
        if left <= 0 or _us(refusal.retry_after) > left:
            return True
        if not any(isinstance(limit, LeakyBucket) for limit in self._limiter.limits):
            return False
        return bool(self._limiter.peek(*self._identifiers, cost=self._cost))


# Who waits for a limiter on each store, in the order of their coming; guarded by the lock.
_queues: weakref.WeakKeyDictionary[Store, list[_Turn]] = weakref.WeakKeyDictionary()
_lock = threading.Lock()


def _forget_parent() -> None:
    """Start anew in a forked child: those who wait in the parent aren't here."""
    global _lock
    _lock = threading.Lock()
    _queues.clear()


os.register_at_fork(after_in_child=_forget_parent)


def _bytes_of(identifier: str | bytes) -> bytes:
    return identifier.encode("utf-8", "surrogatepass") if isinstance(identifier, str) else identifier


def _timeout_us(timeout: float) -> int:
    if isinstance(timeout, bool) or not isinstance(timeout, int | float):
        raise TypeError(f"timeout must be a number of seconds, not {timeout!r}")
    if not timeout >= 0:
        raise ValueError(f"timeout must be 0 or more seconds, not {timeout!r}")
    return _us(timeout)


def _us(seconds: float) -> int:
    return _LONGEST_US if math.isinf(seconds) else min(round(seconds * 1_000_000), _LONGEST_US)
