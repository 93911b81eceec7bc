"""Waiting for a limit: ``Limiter.acquire``.

The callers that wait with one limiter form a line for each identifier, in the order of their coming. A caller
that is the first in the lines of all its identifiers asks the store, sleeps until the exact instant at which
the store told it to come back, and asks again. Everybody else sleeps and asks nothing: whoever leaves wakes
those who are the first then. So each grant costs a few calls of the store, however many wait.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from overlimit._arguments import shown
from overlimit.errors import StoreError
from overlimit.sleeping import END_US, Alarm, Watch, micros_of, watch_of
from overlimit.waiting_lines import Place, lines

if TYPE_CHECKING:
    from overlimit._core import Decision, Store
    from overlimit.limiter import Limiter

__all__ = ["acquire", "wake_after_refund", "wake_waiters"]

_log = logging.getLogger("overlimit")

_LAST_MOMENT = 1.0
"""Seconds for which a caller whose time is up by a clock that stands still lets those before it ask first."""


def acquire(
    limiter: Limiter, identifiers: tuple[str | bytes, ...], cost: int, timeout: float | None
) -> Decision:
    """Wait until a hit is allowed and its delay is over; see ``Limiter.acquire``."""
    longest = _timeout_us(timeout)
    watch = watch_of(limiter)
    waiter = _Waiter(limiter, identifiers, cost, watch, watch.now() + longest)
    decision = None
    try:
        decision = _in_line(waiter)
        if decision.delay > 0:
            watch.wait(Alarm(), watch.time_of(decision) + micros_of(decision.delay))
    except BaseException:
        if decision is not None:
            _give_back(limiter, decision)
        raise
    return decision


def wake_waiters(store: Store, identifiers: Iterable[object] | None = None) -> None:
    """Let those who are the first to wait for one of these identifiers, or for any, ask this store again."""
    if lines().by_limiter:
        lines().wake(store, None if identifiers is None else list(map(_key_of, identifiers)))


def wake_after_refund(store: Store, decision: Decision) -> None:
    """Let those who are the first to wait for what a decision was about ask this store again."""
    if lines().by_limiter:
        wake_waiters(store, (detail.identifier for detail in decision.details))


def _in_line(waiter: _Waiter) -> Decision:
    try:
        waiter.join()
        return waiter.decision()
    finally:
        try:
            waiter.leave()
        except BaseException:  # of a signal handler: nobody would ever leave this place, or wake the next
            waiter.leave()
            waiter.wake_next()
            raise


def _give_back(limiter: Limiter, decision: Decision) -> None:
    """Refund a caller that was interrupted, whose error is the interruption even if the store fails now."""
    try:
        limiter.refund(decision)
    except StoreError:
        _log.warning("an interrupted acquire could not give back what it was charged", exc_info=True)


class _Waiter:
    """One caller: how it comes to a decision."""

    def __init__(
        self, limiter: Limiter, identifiers: tuple[str | bytes, ...], cost: int, watch: Watch, deadline: float
    ) -> None:
        self._limiter, self._identifiers, self._cost, self._watch = limiter, identifiers, cost, watch
        self._place = Place(map(_key_of, identifiers), deadline)

    def join(self) -> None:
        lines().join(self._limiter, self._place)

    def leave(self) -> None:
        lines().leave(self._limiter, self._place)

    def wake_next(self) -> None:
        lines().wake(self._limiter.store, self._place.keys)

    def decision(self) -> Decision:
        """Return the admission, or the refusal as soon as it's certain that the deadline cannot be met."""
        has_peeked = False
        while True:
            self._place.alarm.rung = False
            if lines().is_first(self._limiter, self._place):
                decision = self._ask(self._limiter._hit_within)
                if decision or self._is_vain(decision):
                    return decision
                self._wait_as_told(decision)
            elif self._place.earliest > self._place.deadline:
                return self._refusal()
            elif not has_peeked:
                has_peeked = True
                decision = self._ask(self._limiter._peek_within)
                if not decision and self._is_vain(decision):
                    return decision
            elif not self._comes_forward():
                return self._refusal()

    def _ask(self, question: Callable[..., Decision]) -> Decision:
        left = self._place.deadline - self._watch.now()
        patience = min(max(0, left), END_US) / 1e6
        return question(*self._identifiers, cost=self._cost, patience=patience)

    def _is_vain(self, decision: Decision) -> bool:
        """Whether it's certain that the caller cannot go on before its deadline, its delay included."""
        if decision.status == "never":
            return True
        return micros_of(decision._ready_after) > self._place.deadline - self._watch.time_of(decision)

    def _wait_as_told(self, refusal: Decision) -> None:
        until = self._watch.time_of(refusal) + micros_of(refusal.retry_after)
        lines().postpone(self._limiter, self._place, until)
        self._watch.wait(self._place.alarm, until)

    def _comes_forward(self) -> bool:
        """Wait behind others; False when the time is up before anything changes."""
        self._watch.wait(self._place.alarm, self._place.deadline)
        return self._place.alarm.rings_within(_LAST_MOMENT if self._watch.stands_still else 0)

    def _refusal(self) -> Decision:
        """Return what the store says, refused in any case until those before it can have gone."""
        decision = self._ask(self._limiter._peek_within)
        return decision._postponed(max(1, self._place.earliest - self._watch.time_of(decision)))


def _key_of(identifier: object) -> bytes:
    """Return what tells identifiers apart; raise TypeError for all but text and bytes."""
    if isinstance(identifier, str):
        return identifier.encode("utf-8", "surrogatepass")
    if isinstance(identifier, bytes):
        return identifier
    raise TypeError(
        f"an identifier must be a str or bytes such as 'user:42', not {shown(identifier)}; other arguments "
        "are given by name: timeout=5, cost=5"
    )


def _timeout_us(timeout: float | None) -> float:
    if timeout is None:
        return math.inf
    if isinstance(timeout, bool) or not isinstance(timeout, int | float):
        raise TypeError(
            f"timeout must be a number of seconds, or None for as long as it takes, not {shown(timeout)}"
        )
    if not timeout >= 0:
        raise ValueError(f"timeout must be a number of seconds from 0, not {timeout!r}")
    return math.inf if timeout >= END_US / 1e6 else micros_of(timeout)
