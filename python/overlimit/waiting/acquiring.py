"""Waiting for a limit: ``Limiter.acquire``.

The callers that wait for one limiter (or its family, of ``with_limits``) form a queue for each identifier,
first come first served. The first in the queues of all its identifiers asks the store, sleeps until the exact
instant at which the store told it to ask again, and asks again; all others sleep, and who leaves wakes those
that are the first then. So each admission costs a few calls of the store, however many wait.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from overlimit._messages.texts import short_repr
from overlimit.clocks import END_US
from overlimit.errors import StoreError
from overlimit.waiting.queues import Waiter, wait_queues
from overlimit.waiting.sleeping import WaitingClock, WakeUp, clock_of, micros_of, own_time

if TYPE_CHECKING:
    from overlimit._core import Decision, Store
    from overlimit.clocks import ManualClock
    from overlimit.limiter import Limiter

_log = logging.getLogger("overlimit")

_LAST_MOMENT = 1.0
"""Seconds of real time that a caller leaves to those before it when a ManualClock passes its deadline."""


def acquire(
    limiter: Limiter, identifiers: tuple[str | bytes, ...], cost: int, timeout: float | None
) -> Decision:
    """Wait until a hit is allowed and its delay is over; see ``Limiter.acquire``."""
    longest = _timeout_us(timeout)
    clock = clock_of(limiter)
    acquisition = _Acquisition(limiter, identifiers, cost, clock, clock.now() + longest)
    decision = None
    try:
        decision = acquisition.decision()
        if decision.delay > 0:
            clock.wait(WakeUp(), clock.time_of(decision) + micros_of(decision.delay))
    except BaseException:
        if decision is not None:
            _give_back(limiter, decision)
        raise
    return decision


def wake_waiters(store: Store, identifiers: Iterable[object] | None = None) -> None:
    """Let those that wait first for one of these identifiers, or for any, ask this store again."""
    if wait_queues().by_family:
        wait_queues().wake(store, None if identifiers is None else list(map(_key_of, identifiers)))


def follow(clock: ManualClock | None) -> None:
    """Let those that wait without a clock of their own wait by this one, and ask again what it says."""
    own_time.follow(clock)
    wait_queues().wake_all()


def wake_after_refund(store: Store, decision: Decision) -> None:
    """Let those that wait first for an identifier of a decision ask this store again."""
    if wait_queues().by_family:
        wake_waiters(store, (detail.identifier for detail in decision.details))


def _give_back(limiter: Limiter, decision: Decision) -> None:
    """Refund a caller that was interrupted, whose error is the interruption even if the store fails now."""
    try:
        limiter.refund(decision)
    except StoreError:
        _log.warning("an interrupted acquire could not give back what it was charged", exc_info=True)


class _Acquisition:
    """One call of ``acquire``: how it comes to a decision."""

    def __init__(
        self,
        limiter: Limiter,
        identifiers: tuple[str | bytes, ...],
        cost: int,
        clock: WaitingClock,
        deadline: float,
    ) -> None:
        self._limiter, self._identifiers, self._cost, self._clock = limiter, identifiers, cost, clock
        self._waiter = Waiter(map(_key_of, identifiers), deadline)

    def decision(self) -> Decision:
        """Wait in the queues of all identifiers, and return the admission or the refusal."""
        limiter, waiter = self._limiter, self._waiter
        try:
            wait_queues().join(limiter, waiter)
            return self._decision_in_turn()
        finally:
            try:
                wait_queues().leave(limiter, waiter)
            except BaseException:
                # Of a signal handler: nobody else would remove this caller, or wake the next.
                wait_queues().leave(limiter, waiter)
                wait_queues().wake(limiter.store, waiter.keys)
                raise

    def _decision_in_turn(self) -> Decision:
        """Return the admission, or the refusal as soon as it is certain that the deadline cannot be met."""
        has_peeked = False
        while True:
            self._waiter.wake_up.is_notified = False
            if wait_queues().is_first(self._limiter, self._waiter):
                decision = self._ask(self._limiter._hit_within)
                if decision or self._is_too_late(decision):
                    return decision
                self._wait_as_told(decision)
            elif self._waiter.earliest > self._waiter.deadline:
                return self._refusal()
            elif not has_peeked:
                has_peeked = True
                decision = self._ask(self._limiter._peek_within)
                if not decision and self._is_too_late(decision):
                    return decision
            elif not self._wait_for_turn():
                return self._refusal()

    def _ask(self, question: Callable[..., Decision]) -> Decision:
        left = self._waiter.deadline - self._clock.now()
        patience = min(max(0, left), END_US) / 1e6
        return question(*self._identifiers, cost=self._cost, patience=patience)

    def _is_too_late(self, decision: Decision) -> bool:
        """Whether it is certain that the caller cannot go on before its deadline, its delay included."""
        if decision.status == "never":
            return True
        return micros_of(decision._ready_after) > self._waiter.deadline - self._clock.time_of(decision)

    def _wait_as_told(self, refusal: Decision) -> None:
        until = self._clock.time_of(refusal) + micros_of(refusal.retry_after)
        wait_queues().postpone(self._limiter, self._waiter, until)
        self._clock.wait(self._waiter.wake_up, until)

    def _wait_for_turn(self) -> bool:
        """Wait behind others; False when the time is up before anything changes."""
        self._clock.wait(self._waiter.wake_up, self._waiter.deadline)
        return self._waiter.wake_up.is_notified_within(_LAST_MOMENT if self._clock.stands_still else 0)

    def _refusal(self) -> Decision:
        """Return what the store says, refused in any case until those before it can have gone."""
        decision = self._ask(self._limiter._peek_within)
        return decision._postponed(max(1, self._waiter.earliest - self._clock.time_of(decision)))


def _key_of(identifier: object) -> bytes:
    """Return what tells identifiers apart; raise TypeError for all but text and bytes."""
    if isinstance(identifier, str):
        return identifier.encode("utf-8", "surrogatepass")
    if isinstance(identifier, bytes):
        return identifier
    raise TypeError(
        f"an identifier must be a str or bytes such as 'user:42', not {short_repr(identifier)}; other "
        "arguments are given by name: timeout=5, cost=5"
    )


def _timeout_us(timeout: float | None) -> float:
    if timeout is None:
        return math.inf
    if isinstance(timeout, bool) or not isinstance(timeout, int | float):
        raise TypeError(
            f"timeout must be a number of seconds, or None for as long as it takes, not {short_repr(timeout)}"
        )
    if not timeout >= 0:
        raise ValueError(f"timeout must be a number of seconds from 0, not {timeout!r}")
    return math.inf if timeout >= END_US / 1e6 else micros_of(timeout)
