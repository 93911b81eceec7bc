"""Waiting for limits: ``Limiter.acquire`` and ``acquire_all``.

A caller whom nobody who came earlier holds up asks the store. If it is refused, it joins the queue of the
pair (an identifier and a limit) that refuses it longest, sleeps until the exact instant at which the store
told it to ask again, and asks again. A caller that needs a pair for which an earlier one waits is held up: it
stands behind that one, sleeps, and is woken when it has become the first. So each admission costs a few calls
of the store, however many wait. Besides, a call with a timeout asks once when it comes behind others, to be
refused at once if it would wait in vain.

A store in memory answers before anybody can come in between, so a caller that finds nobody waiting asks it
first of all, and mostly has no need of what follows.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

from overlimit import _core, _steps
from overlimit._messages.arguments import checks_arguments
from overlimit._messages.migration_hints import OF_ACQUIRE
from overlimit._messages.texts import short_repr
from overlimit._options import whole_number
from overlimit.clocks import END_US
from overlimit.errors import StoreError
from overlimit.waiting.queues import USUAL, QueuedLimiter, Urgency, Waiter, wait_queues
from overlimit.waiting.sleeping import (
    AnyWakeUp,
    Followed,
    Steps,
    WaitingClock,
    WakeUp,
    clock_of,
    micros_of,
    notified_within,
    own_time,
)

if TYPE_CHECKING:
    from overlimit._core import Decision, Store

Charge: TypeAlias = "tuple[QueuedLimiter, str | bytes] | tuple[QueuedLimiter, str | bytes, int]"
"""What ``acquire_all`` takes: a limiter, an identifier, and what it is to spend."""

Charges: TypeAlias = "tuple[tuple[QueuedLimiter, str | bytes, int], ...]"
"""The same of a whole call, checked."""

_F = TypeVar("_F", bound=Callable[..., Any])

_log = logging.getLogger("overlimit")

_FIRST_LOOK, _LAST_LOOK = 5_000, 250_000
"""Microseconds from one question about what another process may have given back to the next: first, last."""

_NO_DELAY = 1
"""Microseconds: a delay that is refused for being longer is told from a limit that refuses for now."""

_LAST_MOMENT = 1.0
"""Seconds of real time that a caller leaves to those before it when a ManualClock passes its deadline."""


def acquire(
    limiter: QueuedLimiter,
    identifiers: tuple[str | bytes, ...],
    cost: int,
    timeout: float | None,
    urgency: Urgency = USUAL,
) -> Decision:
    """Wait until a hit is allowed and its delay is over; see ``Limiter.acquire``."""
    attempt = attempted(limiter, identifiers, cost, timeout)
    if attempt is not None and attempt.needs_no_wait:
        return attempt.decision

    def hit(patience: float) -> Decision:
        return limiter._hit_within(*identifiers, cost=cost, patience=patience)

    def peek(patience: float) -> Decision:
        return limiter._peek_within(*identifiers, cost=cost, patience=patience)

    caller = Caller(hit, peek, limiter.refund, WakeUp)
    subjects = subjects_of(limiter, identifiers, cost)
    return _steps.run_calls(acquiring(subjects, timeout, caller, attempt, urgency))


def takes_one_list(what: str) -> Callable[[_F], _F]:
    """Have the TypeErrors of a function that waits for several limiters say what to write."""
    hint = f"write the {what} as one list of tuples, and options by name"
    return checks_arguments(synonyms=dict.fromkeys(OF_ACQUIRE, "timeout"), hint=hint)


@takes_one_list("charges")
def acquire_all(
    charges: Iterable[Charge],
    timeout: float | None = 5.0,
    *,
    priority: int = 0,
    patience: float | None = None,
) -> Decision:
    """Wait until several policies allow a call at once, charge all of it, and wait for its delay to be over.

    It is to `hit_all` what ``Limiter.acquire`` is to ``hit``: first come, first served among the callers in
    this process that wait for the same limit of an identifier, also those of ``acquire``; others are not held
    up. Callers that name the same charges in another order do not wait for each other for ever. Nothing is
    charged to any limiter until all of them admit the call.

    Parameters
    ----------
    charges
        Tuples (limiter, identifier[, cost]) of limiters on one store and clock, as for `hit_all`.
    timeout
        The longest wait in seconds, by the limiters' clock, delay included. None: as long as it takes.
    priority, patience
        As for ``Limiter.acquire``.

    Returns
    -------
    Decision
        Allowed, with its delay over; or, once the timeout is known to be too short, the refusal, and nothing
        is charged. Any of the limiters refunds all of it.

    Raises
    ------
    ValueError, TypeError, StoreError
        As `hit_all`, each of whose attempts follows ``on_error``; also for a timeout that is no number or
        negative.
    """
    checked = _core._checked_charges(charges)
    wait = thread_wait(checked, partial(_core._hit_all_within, checked))
    return _steps.run_calls(acquiring_first([wait], timeout, urgency_of(priority, patience)))


class Caller(NamedTuple):
    """How a caller asks the store and sleeps: a thread, or a task that awaits what these return."""

    hit: Callable[[float], Any]
    """Charges what is to be acquired, unless its delay would be longer than so many seconds."""
    peek: Callable[[float], Any]
    """Says what ``hit`` would say."""
    refund: Callable[[Decision], Any]
    """Gives back what ``hit`` has charged."""
    wake_up: Callable[[], AnyWakeUp]
    """Makes what the caller sleeps by."""
    note_refusal: Callable[[Decision], object] = bool
    """Is told of the refusal with which it ends, where ``hit`` tells nobody of those in between."""
    asks_early: bool = False
    """Whether what is charged is mostly given back before the time that a refusal says, also by others."""


class Subject(NamedTuple):
    """Whom a caller waits for."""

    limiter: QueuedLimiter
    key: bytes
    cost: int

    @property
    def may_pass(self) -> bool:
        """Whether the limits admit such a cost, sooner or later."""
        return whole_number(self.cost) is not None and all(
            self.cost <= limit.quota for limit in self.limiter.limits
        )


def subjects_of(limiter: QueuedLimiter, identifiers: Iterable[object], cost: int) -> list[Subject]:
    """Return whom a caller waits for who names these identifiers to a limiter."""
    return [Subject(limiter, key_of(identifier), cost) for identifier in identifiers]


def subjects_in(charges: Charges) -> list[Subject]:
    """Return whom a caller waits for who names these charges."""
    return [Subject(limiter, key_of(identifier), cost) for limiter, identifier, cost in charges]


def thread_wait(
    charges: Charges, hit: Callable[[float], Any], note_refusal: Callable[[Decision], object] = bool
) -> tuple[list[Subject], Caller]:
    """Return whom a thread waits for that names these charges, and how it asks."""
    peek = partial(_core._peek_all_within, charges)
    return subjects_in(charges), Caller(hit, peek, charges[0][0].refund, WakeUp, note_refusal)


class Attempt(NamedTuple):
    """What a store in memory said to a caller that found nobody waiting."""

    decision: Decision
    wakes: int
    """How often the queues had been woken before: if they were again, the store may say something else."""

    @property
    def needs_no_wait(self) -> bool:
        """Whether the caller can go on at once."""
        return bool(self.decision) and self.decision.delay == 0


def attempted(
    limiter: QueuedLimiter, identifiers: tuple[str | bytes, ...], cost: int, timeout: float | None
) -> Attempt | None:
    """Ask a store in memory at once, without a place in any queue; None: a place is needed.

    It answers before anybody can come in between, as a store that is waited for does not.
    """
    queues = wait_queues()
    if limiter._family in queues.by_family or limiter.store.waits:
        return None
    if not all(isinstance(each, str | bytes) for each in identifiers):
        return None  # what is said of an acquire is said where it joins its queues
    wakes, patience = queues.wakes, min(timeout_us(timeout), END_US) / 1e6
    return Attempt(limiter._hit_within(*identifiers, cost=cost, patience=patience), wakes)


def acquiring(
    subjects: list[Subject],
    timeout: float | None,
    caller: Caller,
    attempt: Attempt | None = None,
    urgency: Urgency = USUAL,
) -> Steps[Decision]:
    """Wait in the queues of all subjects, by the clock that their limiters share, and then for the delay."""
    return (yield from acquiring_first([(subjects, caller)], timeout, urgency, attempt))


def acquiring_first(
    entries: list[tuple[list[Subject], Caller]],
    timeout: float | None,
    urgency: Urgency,
    attempt: Attempt | None = None,
) -> Steps[Decision]:
    """Wait in the queues of all entries until one admits, and then for the delay."""
    longest, (subjects, caller) = timeout_us(timeout), entries[0]
    clock = clock_of(subjects[0].limiter) if subjects else own_time
    wake_up, wait, deadline = caller.wake_up(), _CountedWait(subjects), clock.now() + longest
    decision = attempt.decision if attempt is not None and attempt.decision else None
    try:
        if decision is None:
            turns = [
                _Turn(
                    Waiter([each[:2] for each in own], deadline, wake_up, urgency),
                    asked,
                    clock,
                    attempt,
                    may_wait_in_vain=not asked.asks_early
                    and (longest < math.inf or not all(each.may_pass for each in own)),
                )
                for own, asked in entries
            ]
            decision = yield from _Acquisition(turns, wake_up, clock, wait).deciding()
        if decision.delay > 0:
            wait.begin()
            until = clock.time_of(decision) + micros_of(decision.delay)
            yield from clock.waiting(caller.wake_up(), until)
    except BaseException as error:
        if decision is not None and not isinstance(error, GeneratorExit):
            yield from _giving_back(entries[decision.choice or 0][1], decision)
        raise
    finally:
        wait.end()
    return decision


def wake_waiters(store: Store, identifiers: Iterable[object] | None = None) -> None:
    """Let those that wait first for one of these identifiers, or for any, ask this store again."""
    queues = wait_queues()
    queues.wakes += 1
    if queues.by_family:
        queues.wake(store, None if identifiers is None else list(map(key_of, identifiers)))


def follow(clock: Followed | None) -> None:
    """Let those that wait without a clock of their own wait by this one, and ask again what it says."""
    own_time.follow(clock)
    wait_queues().wakes += 1
    wait_queues().wake_all()


def wake_after_refund(store: Store, decision: Decision) -> None:
    """Let those that wait first for an identifier of a decision ask this store again."""
    wake_waiters(store, (detail.identifier for detail in decision.details))


def _giving_back(caller: Caller, decision: Decision) -> Steps[None]:
    """Refund a caller that was interrupted, whose error is the interruption even if the store fails now."""
    try:
        yield partial(caller.refund, decision)
    except StoreError:
        _log.warning("an interrupted acquire could not give back what it was charged", exc_info=True)


def leave_for_others(waiters: list[Waiter]) -> None:
    """Remove a caller that was interrupted, which nobody else would, and wake those behind it.

    Signal handlers may raise at any moment, also once more while it leaves.
    """
    try:
        for each in waiters:
            wait_queues().leave(each)
            wait_queues().wake_behind(each)
    except BaseException:
        leave_for_others(waiters)
        raise


class _CountedWait:
    """Counts for metrics that a caller waits, if it does, and how long: for the first limiter it names."""

    def __init__(self, subjects: list[Subject]) -> None:
        self._subjects = subjects
        self._began: float | None = None

    def begin(self) -> None:
        """Note that it waits, perhaps again."""
        if self._began is None:
            self._began = time.monotonic()
            self._subjects[0].limiter._count_wait(None)

    def end(self) -> None:
        """Note that it waits no longer."""
        if self._began is not None:
            self._subjects[0].limiter._count_wait(round((time.monotonic() - self._began) * 1e6))
            self._began = None


class _Acquisition:
    """One call of ``acquire`` or its relatives: how it comes to a decision by one of its turns."""

    def __init__(
        self, turns: list[_Turn], wake_up: AnyWakeUp, clock: WaitingClock, wait: _CountedWait
    ) -> None:
        self._turns, self._wake_up, self._clock, self._wait = turns, wake_up, clock, wait
        self._refusals: list[tuple[_Turn, Decision]] = []

    def deciding(self) -> Steps[Decision]:
        """Wait in whatever queues it takes, and return the admission or the refusal."""
        waiters = [each.waiter for each in self._turns]
        try:
            for each in waiters:
                wait_queues().join(each)
            decision = yield from self._deciding_in_turn()
            for each in waiters:
                wait_queues().leave(each)
        except BaseException:
            leave_for_others(waiters)
            raise
        return decision

    def _deciding_in_turn(self) -> Steps[Decision]:
        """Return the admission, or the refusal as soon as it is certain that the deadline cannot be met."""
        while True:
            self._wake_up.is_notified = False
            for asks in (self._asking_at_once, self._asking_the_soonest):
                decision = yield from asks()
                if decision is not None:
                    return decision
            if not self._turns:
                return self._earliest_refusal()
            until = min(each.until for each in self._turns)
            if until > 0:
                self._wait.begin()
                yield from self._clock.waiting(self._wake_up, until)
                if all(each.is_behind for each in self._turns) and not (yield from self._is_notified()):
                    for turn in self._turns:
                        self._refusals.append((turn, (yield from turn.refusing())))
                    return self._earliest_refusal()

    def _asking_at_once(self) -> Steps[Decision | None]:
        """Ask by all turns; where there are several, a delay is for the next question to compare."""
        patience = math.inf if len(self._turns) == 1 else _NO_DELAY
        for turn in tuple(self._turns):
            decision = yield from self._trying(turn, patience)
            if decision is not None:
                return decision
        return None

    def _asking_the_soonest(self) -> Steps[Decision | None]:
        """Take the delay of a turn if no other can go on before it is over; the first one of several."""
        soonest = min(self._turns, key=lambda each: each.ready_at, default=None)
        if soonest is None or not soonest.is_delayed:
            return None
        return (yield from self._trying(soonest, math.inf))

    def _trying(self, turn: _Turn, patience: float) -> Steps[Decision | None]:
        """Ask by a turn, and return the admission; give it up if it is refused for good."""
        decision = yield from turn.trying(patience)
        if decision is None or decision:
            return decision
        self._refusals.append((turn, decision))
        self._turns.remove(turn)
        wait_queues().leave(turn.waiter)
        return None

    def _earliest_refusal(self) -> Decision:
        turn, refusal = min(self._refusals, key=lambda each: each[1].retry_after)
        turn.caller.note_refusal(refusal)
        return refusal

    def _is_notified(self) -> Steps[bool]:
        """Whether something has changed for those that waited behind others, now that the time is up."""
        return notified_within(self._wake_up, _LAST_MOMENT if self._clock.stands_still else 0)


class _Turn:
    """What one call asks for, or of several that are as good, one of them: whether it is its turn."""

    def __init__(
        self,
        waiter: Waiter,
        caller: Caller,
        clock: WaitingClock,
        attempt: Attempt | None,
        *,
        may_wait_in_vain: bool,
    ) -> None:
        self.waiter = waiter
        self.until: float = 0
        """When to look again, if nothing happens before."""
        self.is_behind = False
        """Whether it waits only for others, who come first."""
        self.ready_at: float = math.inf
        """When it could go on, as far as the store has told."""
        self.is_delayed = False
        """Whether the store would admit it, with a delay that was too long."""
        self.caller, self._clock, self._attempt = caller, clock, attempt
        self._wakes = 0
        """How often the queues had been woken before it asked."""
        self._has_peeked = not may_wait_in_vain
        self._next_look = _FIRST_LOOK

    def trying(self, patience: float) -> Steps[Decision | None]:
        """Ask, if it is its turn, and return the admission, or the refusal if that is certain; None: wait.

        ``patience`` is the longest delay in microseconds.
        """
        attempt, self._attempt = self._attempt, None
        self.ready_at, self.is_delayed = math.inf, False
        self.is_behind = wait_queues().is_held_up(self.waiter, self._clock.now())
        if not self.is_behind:
            decision = yield from self._hitting(attempt, patience)
            if decision or self._is_too_late(decision):
                return decision
            self.until = self._wait_as_told(decision)
            self.is_delayed &= patience < math.inf
        elif wait_queues().earliest(self.waiter)[0] > self.waiter.deadline:
            return (yield from self.refusing())
        elif not self._has_peeked:
            self._has_peeked, self.until = True, 0
            refusal: Decision = yield self._asking(self.caller.peek)
            if not refusal and self._is_too_late(refusal):
                return refusal
        else:
            self.until = self.waiter.deadline
        return None

    def _hitting(self, attempt: Attempt | None, patience: float) -> Steps[Decision]:
        """Return what the store says, or said before this caller joined, if nothing has happened since."""
        self._wakes = wait_queues().wakes
        if attempt is not None and attempt.wakes == self._wakes:
            return attempt.decision
        decision: Decision = yield self._asking(self.caller.hit, patience)
        return decision

    def _asking(self, question: Callable[[float], Any], patience: float = math.inf) -> Callable[[], Any]:
        left = self.waiter.deadline - self._clock.now()
        return partial(question, min(max(0, left), patience, END_US) / 1e6)

    def _is_too_late(self, decision: Decision) -> bool:
        """Whether it is certain that the caller cannot go on before its deadline, its delay included."""
        if decision.status == "never":
            return True
        ready_after = 1 if self.caller.asks_early else micros_of(decision._ready_after)
        return ready_after > self.waiter.deadline - self._clock.time_of(decision)

    def _wait_as_told(self, refusal: Decision) -> float:
        """Stand where the store says, and return until when."""
        now, retry_after = self._clock.time_of(refusal), micros_of(refusal.retry_after)
        told, ready_after = now + retry_after, micros_of(refusal._ready_after)
        self.ready_at, self.is_delayed = now + ready_after, ready_after > retry_after
        until: float = told
        if self.caller.asks_early:
            told, until = now, min(told, self._looking_again())
        wait_queues().wait_as_told(self.waiter, _binding_places(refusal), now, told, self._wakes)
        return until

    def _looking_again(self) -> float:
        """Return when to ask for what another process may have given back: ever more seldom."""
        if not any(store.is_shared for store in self.waiter.stores.values()):
            return self.waiter.deadline
        look, self._next_look = self._next_look, min(2 * self._next_look, _LAST_LOOK)
        return min(self.waiter.deadline, self._clock.now() + look)

    def refusing(self) -> Steps[Decision]:
        """Return what the store says, but refused for the pair for which others come first."""
        earliest, place = wait_queues().earliest(self.waiter)
        decision: Decision = yield self._asking(self.caller.peek)
        return decision._postponed(max(1, earliest - self._clock.time_of(decision)), place)


def _binding_places(refusal: Decision) -> tuple[int, ...]:
    """Return the places in details of what refuses a call longest; none when nobody has decided."""
    longest = refusal.retry_after
    rows = enumerate(refusal.details)
    return tuple(place for place, row in rows if not row.allowed and row.retry_after == longest)


def key_of(identifier: object) -> bytes:
    """Return what tells identifiers apart; raise TypeError for all but text and bytes."""
    if isinstance(identifier, str):
        return identifier.encode("utf-8", "surrogatepass")
    if isinstance(identifier, bytes):
        return identifier
    raise TypeError(
        f"an identifier must be a str or bytes such as 'user:42', not {short_repr(identifier)}; other "
        "arguments are given by name: timeout=5, cost=5"
    )


def timeout_us(timeout: float | None) -> float:
    """Return the longest wait in microseconds; raise TypeError or ValueError for what is none."""
    if timeout is None:
        return math.inf
    if isinstance(timeout, bool) or not isinstance(timeout, int | float):
        raise TypeError(
            f"timeout must be a number of seconds, or None for as long as it takes, not {short_repr(timeout)}"
        )
    if not timeout >= 0:
        raise ValueError(f"timeout must be a number of seconds from 0, not {timeout!r}")
    return math.inf if timeout >= END_US / 1e6 else micros_of(timeout)


def urgency_of(priority: int, patience: float | None) -> Urgency:
    """Return how urgent a call is; raise TypeError or ValueError for what is no priority or patience."""
    if priority.__class__ is int and patience is None:
        return Urgency(priority) if priority else USUAL
    if whole_number(priority) is None:
        raise TypeError(f"priority must be a whole number such as 1, not {short_repr(priority)}")
    if patience is None:
        return Urgency(priority)
    if isinstance(patience, bool) or not isinstance(patience, int | float):
        raise TypeError(f"patience must be a number of seconds, or None, not {short_repr(patience)}")
    if not patience >= 0:
        raise ValueError(f"patience must be a number of seconds from 0, not {patience!r}")
    return Urgency(priority, micros_of(patience))
