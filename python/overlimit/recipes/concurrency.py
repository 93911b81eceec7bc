"""How many at once."""

from __future__ import annotations

import atexit
import logging
from itertools import starmap
from types import TracebackType
from typing import TYPE_CHECKING, ClassVar, NoReturn, Protocol
from weakref import WeakSet

from overlimit import _steps
from overlimit._core import Decision, _fork_generation
from overlimit._messages.arguments import checks_arguments
from overlimit._messages.initialised import Initialised
from overlimit._messages.migration_hints import OF_ACQUIRE, NotHere
from overlimit.clocks import ClockLike
from overlimit.errors import InvalidLimit, StoreError
from overlimit.limiter import Limiter
from overlimit.limits import SlidingLog
from overlimit.limits.quantities import Seconds, count, micros
from overlimit.stores import Store
from overlimit.waiting.acquiring import Caller, acquiring, subjects_of, timeout_us
from overlimit.waiting.sleeping import WakeUp
from overlimit.waiting.throttled_calls import admitted

_log = logging.getLogger("overlimit")

_MOST_SLOTS = 10_000


class HeldUntilExit(Protocol):
    """A slot, which nobody may have left when the process ends."""

    _has_left: bool

    def _leave_now(self) -> None:
        """Leave it if it is held; raise StoreError."""


held: WeakSet[HeldUntilExit] = WeakSet()
"""The slots of this process, which are left before the interpreter takes itself apart."""


@atexit.register
def _leave_all() -> None:
    for slot in list(held):
        try:
            slot._leave_now()
        except StoreError:
            _log.warning(
                "slots could not be left: they are free once their longest time is over", exc_info=True
            )
            break
    for slot in list(held):
        slot._has_left = True


class Slot:
    """One of a key's slots, taken, and true, until ``leave``; made by ``enter`` and ``acquire``.

    It is also left when nobody refers to it any more, and when the interpreter exits. It belongs to the
    process that entered: a forked child leaves nothing. It can be neither pickled nor copied.
    """

    _has_left = True

    def __init__(self, limiter: Limiter, key: str | bytes) -> None:
        self._limiter, self._key = limiter, key
        self._answer: list[Decision] = []
        self._entered_after = _fork_generation()
        self._has_left = False
        held.add(self)

    def leave(self) -> None:
        """Free the slot for another; once: a second call does nothing, nor does one after ``longest``.

        Raises StoreError when the store cannot answer. The slot is then free ``longest`` seconds after it was
        taken, or at another ``leave`` if the error is not ``maybe_charged``.
        """
        if not self:
            return
        self._limiter.refund(self._answer[0])
        self._has_left = True

    def _take(self, _patience: float = 0.0) -> Decision:
        """Ask for the slot.

        No signal handler runs between the answer and its being kept here, so a slot that is taken is left,
        whatever is raised from then on.
        """
        self._answer[:] = starmap(self._limiter.hit, ((self._key,),))
        return self._answer[0]

    def _wait(self, timeout: float | None) -> Decision:
        """Take it when it is this caller's turn, or return the refusal once the time is up."""

        def peek(_patience: float) -> Decision:
            return self._limiter.peek(self._key)

        caller = Caller(self._take, peek, self._limiter.refund, WakeUp, asks_early=True)
        return _steps.run_calls(acquiring(subjects_of(self._limiter, (self._key,), 1), timeout, caller))

    def _leave_now(self) -> None:
        self.leave()

    def _leave_quietly(self) -> None:
        try:
            self.leave()
        except StoreError:
            _log.warning("a slot could not be left: it is free once its longest time is over", exc_info=True)

    def __del__(self) -> None:
        try:
            self._leave_quietly()
        finally:  # a signal handler may have raised
            self._leave_quietly()

    def __bool__(self) -> bool:
        is_held = not self._has_left and any(self._answer)
        return is_held and self._entered_after == _fork_generation()

    def __repr__(self) -> str:
        return f"<Slot of {self._key!r}, {'held' if self else 'left'}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Slot belongs to the process that entered: it cannot be pickled or copied")

    # A type checker shall go on telling that it is not there.
    if not TYPE_CHECKING:
        __enter__ = NotHere("__enter__", "write with concurrency.slot('user:42', timeout=5) as slot:")
        # As of Python 3.14 this one is asked for first.
        __exit__ = NotHere("__exit__", "write with concurrency.slot('user:42', timeout=5) as slot:")


class _Entering:
    """What ``Concurrency.slot`` returns, for a ``with`` statement."""

    def __init__(self, concurrency: Concurrency, key: str | bytes, timeout: float | None) -> None:
        self._concurrency, self._key, self._timeout = concurrency, key, timeout
        self._entered: list[Slot] = []

    def __enter__(self) -> Slot:
        slot = self._concurrency.acquire(self._key, timeout=self._timeout)
        self._entered.append(slot)
        return slot

    # A type checker shall go on telling of a with statement that is async, and of a decorator.
    if not TYPE_CHECKING:

        def __call__(self, *_: object) -> None:
            raise TypeError(
                "a slot decorates nothing: write with concurrency.slot('user:42') in the function"
            )

        def __aenter__(self) -> None:
            raise TypeError(
                "a slot of a Concurrency is waited for, not awaited: write async with AsyncConcurrency(...)."
                "slot(...), of overlimit.aio, or with where there is no event loop"
            )

        __aexit__ = __aenter__

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._entered.pop()._leave_quietly()


class Slots(SlidingLog):
    """So many at once: a sliding log of charges that are given back, in ``per`` seconds at the latest."""

    __slots__ = ()

    _are_slots = True

    def _description(self) -> str:
        return f"{self.limit}-at-once"

    def _phrase(self) -> str:
        return f"{self.limit} at once"


class Concurrency(Initialised):
    """At most ``limit`` at once for each key, in all processes that share the store.

    A slot is taken when one enters, and free again when one leaves. The slot of a holder that died is free
    ``longest`` seconds after it was taken, and so is that of a holder that works for longer: choose
    ``longest`` above what the work may take.

    Parameters
    ----------
    limit
        How many slots each key has: 1 to 10,000.
    longest
        How long a slot can be held, in seconds. By default a minute.
    store, clock, name
        As for ``Limiter``. There is no ``on_error``: a store that fails raises.

    Notes
    -----
    Raises InvalidLimit for wrong numbers. Thread-safe. It is a sliding log of ``limit`` per ``longest``
    seconds, with a charge for each that enters and a refund for each that leaves: exact to the microsecond.
    """

    _set_last: ClassVar[str] = "_limiter"

    @checks_arguments()
    def __init__(
        self,
        limit: int,
        *,
        longest: Seconds = 60,
        store: str | Store = "memory://",
        clock: ClockLike | None = None,
        name: str | None = None,
    ) -> None:
        micros(longest, "longest")
        if count(limit, "limit", _MOST_SLOTS) == 0:
            raise InvalidLimit("limit must be at least 1, since nobody can enter where it is 0")
        self._log = Slots(limit, longest)
        self._limiter = Limiter(self._log, name=name, store=store, clock=clock)

    @checks_arguments(instead=OF_ACQUIRE)
    def slot(self, key: str | bytes, *, timeout: float | None = 0) -> _Entering:
        """Return what a ``with`` statement enters and leaves: ``with c.slot("user:42", timeout=5):``.

        Its block runs with a slot only. Entering raises RateLimitExceeded when none is free within
        ``timeout`` seconds, by default at once, and what ``acquire`` does. If the store fails when the block
        ends, that is logged and raises nothing.
        """
        timeout_us(timeout)
        return _Entering(self, key, timeout)

    @checks_arguments(instead=OF_ACQUIRE)
    def acquire(self, key: str | bytes, *, timeout: float | None = 5.0) -> Slot:
        """Wait for a slot of the key, and take it; keep it while the work lasts.

        First come, first served among those of this process that wait for the key, whom a slot that is left
        in this process wakes. One that another process leaves is found within a quarter of a second. Ctrl-C
        interrupts, and holds nothing, unless a server was being asked just then: what that has granted is
        free after ``longest``.

        Parameters
        ----------
        key
            Whose slots: as the identifier of ``Limiter.hit``.
        timeout
            The longest wait in seconds, by the limiter's clock. None: as long as it takes.

        Raises
        ------
        RateLimitExceeded
            None was free within the timeout. The ``retry_after`` of its ``decision`` says when one is free at
            the latest.
        ValueError, TypeError
            A wrong key or timeout.
        StoreError
            The store cannot answer.
        """
        slot = Slot(self._limiter, key)
        admitted(slot._wait(timeout))
        return slot

    def enter(self, key: str | bytes) -> Slot | None:
        """Take a slot of the key if one is free now, else return None.

        Keep it while the work lasts: ``if c.enter("user:42"):`` leaves at once, since nobody refers to it.
        Raises ValueError or TypeError for a wrong key, StoreError when the store cannot answer.
        """
        slot = Slot(self._limiter, key)
        return slot if slot._take() else None

    def in_use(self, key: str | bytes) -> int:
        """Return how many of the key's slots are taken now. Raises as ``enter`` does."""
        return self._log.limit - self._limiter.peek(key, cost=0).remaining

    def __repr__(self) -> str:
        return f"Concurrency({self._log.limit}, longest={self._log.per}, name={self._limiter.name!r})"

    if not TYPE_CHECKING:
        __enter__ = NotHere("__enter__", "write with concurrency.slot('user:42') as slot:")
        __exit__ = NotHere("__exit__", "write with concurrency.slot('user:42') as slot:")
