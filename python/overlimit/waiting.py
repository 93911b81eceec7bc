"""Waiting for a limit: ``Limiter.acquire``.

Who waits sleeps until the exact instant at which the limiter said to come back, or until something happens in
this process that may let it in earlier: something was given back, or one before it has gone. Among those who
wait with one limiter for a common identifier, the first come is the first served.
"""

from __future__ import annotations

import logging
import math
import os
import threading
import time
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING

from overlimit.clocks import ManualClock
from overlimit.errors import StoreError

if TYPE_CHECKING:
    from overlimit._core import Decision, Store
    from overlimit.limiter import Limiter

__all__ = ["acquire", "tell_waiters"]

_log = logging.getLogger("overlimit")

_END_US = 2**53 - 2**50


def acquire(limiter: Limiter, identifiers: tuple[str | bytes, ...], cost: int, timeout: float) -> Decision:
    """Wait until a hit is allowed and its delay is over; see ``Limiter.acquire``."""
    longest = _timeout_us(timeout)
    watch = _watch_of(limiter)
    turn = _Turn(limiter, identifiers, cost, watch, watch.now() + longest)
    decision = None
    try:
        try:
            turn.join()
            decision = turn.decision()
        finally:
            turn.leave()
        if decision.delay > 0:
            watch.wait(_Call(), watch.time_of(decision) + _us(decision.delay))
    except BaseException:
        if decision is not None:
            _give_back(limiter, decision)
        raise
    return decision


def tell_waiters(store: Store) -> None:
    """Let everybody who waits for a limiter on this store try again now."""
    with _waiting.lock:
        for turn in _waiting.queues.get(store, ()):
            turn.call.give()


def _give_back(limiter: Limiter, decision: Decision) -> None:
    """Refund a caller that was interrupted; why it was is what it's told, whatever the store says."""
    try:
        limiter.refund(decision)
    except StoreError:
        _log.warning("an interrupted acquire could not give back what it was charged", exc_info=True)


class _Call:
    """What a sleeper is woken by: news, or a clock that was moved."""

    def __init__(self) -> None:
        self.event = threading.Event()
        self.news = False

    def give(self) -> None:
        self.news = True
        self.event.set()


class _Watch:
    """A limiter's clock in whole microseconds, and how to sleep by it; without one a steady clock."""

    def __init__(self, now: Callable[[], float] | None, manual: ManualClock | None) -> None:
        self._now, self._manual = now, manual

    def now(self) -> int:
        if self._now is None:
            return time.monotonic_ns() // 1_000
        reading = self._now()
        if not 0 <= reading < _END_US / 1e6:
            raise ValueError(f"clock: {reading!r} seconds are outside [0, 2^53 - 2^50) microseconds")
        return _us(reading)

    def time_of(self, decision: Decision) -> int:
        """When a decision just made was made."""
        return self.now() if self._now is None else _us(decision.time)

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
        return _Watch(None, None)
    owner = getattr(clock, "__self__", clock)  # of clock.now, given as a callable
    return _Watch(getattr(clock, "now", clock), owner if isinstance(owner, ManualClock) else None)


class _Turn:
    """One caller in the queue of a store."""

    def __init__(
        self, limiter: Limiter, identifiers: tuple[str | bytes, ...], cost: int, watch: _Watch, deadline: int
    ) -> None:
        self.call = _Call()
        self._limiter, self._identifiers, self._cost = limiter, identifiers, cost
        self._watch, self._deadline = watch, deadline
        self._keys = {_bytes_of(identifier) for identifier in identifiers}
        self._queue: list[_Turn] = []

    def join(self) -> None:
        with _waiting.lock:
            self._queue = _waiting.queues.setdefault(self._limiter.store, [])
            self._queue.append(self)

    def leave(self) -> None:
        with _waiting.lock:
            if self in self._queue:
                self._queue.remove(self)
            for turn in self._queue:
                if turn._competes_with(self):
                    turn.call.give()

    def decision(self) -> Decision:
        """The admission, or the refusal as soon as it's certain that the deadline cannot be met."""
        while True:
            self.call.news = False
            left = self._deadline - self._watch.now()
            if left > 0 and not self._is_first():
                foreseen = self._ask(self._limiter._peek_within, left)
                if not self._is_vain(foreseen):
                    self._watch.wait(self.call, self._deadline)
                    continue
                if not foreseen:
                    return foreseen
            decision = self._ask(self._limiter._hit_within, left)
            if decision or left <= 0 or self._is_vain(decision):
                return decision
            self._watch.wait(self.call, self._watch.time_of(decision) + _us(decision.retry_after))

    def _ask(self, question: Callable[..., Decision], left: int) -> Decision:
        patience = min(max(0, left), _END_US) / 1e6
        return question(*self._identifiers, cost=self._cost, patience=patience)

    def _competes_with(self, other: _Turn) -> bool:
        return self._limiter is other._limiter and not self._keys.isdisjoint(other._keys)

    def _is_first(self) -> bool:
        """Whether nobody who came earlier waits with this limiter for one of these identifiers."""
        with _waiting.lock:
            for turn in self._queue:
                if turn is self:
                    break
                if turn._competes_with(self):
                    return False
        return True

    def _is_vain(self, decision: Decision) -> bool:
        """Whether it's certain that the caller cannot go on before its deadline, its delay included."""
        if decision.status == "never":
            return True
        return _us(decision._ready_after) > self._deadline - self._watch.time_of(decision)


class _Waiting:
    """Who waits for a limiter on each store, in the order of their coming; guarded by the lock."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.queues: weakref.WeakKeyDictionary[Store, list[_Turn]] = weakref.WeakKeyDictionary()

    def forget_parent(self) -> None:
        """Start anew in a forked child: those who wait in the parent aren't here."""
        self.lock = threading.Lock()
        for queue in self.queues.values():
            queue.clear()


_waiting = _Waiting()
os.register_at_fork(after_in_child=_waiting.forget_parent)


def _bytes_of(identifier: object) -> bytes:
    """Return what tells identifiers apart; what is none is refused by the hit that follows."""
    if isinstance(identifier, str):
        return identifier.encode("utf-8", "surrogatepass")
    return identifier if isinstance(identifier, bytes) else b""


def _timeout_us(timeout: float) -> int:
    if isinstance(timeout, bool) or not isinstance(timeout, int | float):
        raise TypeError(f"timeout must be a number of seconds, not {timeout!r}")
    if not timeout >= 0:
        raise ValueError(f"timeout must be 0 or more seconds, not {timeout!r}")
    return _us(timeout)


def _us(seconds: float) -> int:
    """Seconds in microseconds, to the nearest; what is beyond all bounds is as good as the bound."""
    if seconds >= _END_US / 1e6:
        return _END_US
    whole = math.floor(seconds)
    return whole * 1_000_000 + round((seconds - whole) * 1_000_000)
