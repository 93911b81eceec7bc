"""How many at once."""

from __future__ import annotations

import logging
from types import TracebackType
from typing import TYPE_CHECKING, ClassVar, NoReturn

from overlimit._core import Decision, _fork_generation
from overlimit._messages.arguments import checks_arguments
from overlimit._messages.initialised import Initialised
from overlimit._messages.migration_hints import NotHere
from overlimit.clocks import ClockLike
from overlimit.errors import InvalidLimit, StoreError
from overlimit.limiter import Limiter
from overlimit.limits import SlidingLog
from overlimit.limits.quantities import Seconds, count, micros
from overlimit.stores import Store

_log = logging.getLogger("overlimit")

_MOST_SLOTS = 10_000


class Slot:
    """One of a key's slots, taken, and true, until ``leave``. ``Concurrency.enter`` makes it.

    It is also left when nobody refers to it any more. It belongs to the process that entered: a forked child
    leaves nothing. It can be neither pickled nor copied.
    """

    _has_left = True

    def __init__(self, limiter: Limiter, decision: Decision) -> None:
        self._limiter, self._decision = limiter, decision
        self._entered_after = _fork_generation()
        self._has_left = False

    def leave(self) -> None:
        """Free the slot for another; once: a second call does nothing, nor does one after ``longest``.

        Raises StoreError when the store cannot answer. The slot is then free ``longest`` seconds after it was
        taken, or at another ``leave`` if the error is not ``maybe_charged``.
        """
        if not self:
            return
        self._limiter.refund(self._decision)
        self._has_left = True

    def _leave_quietly(self) -> None:
        try:
            self.leave()
        except StoreError:
            _log.warning("a slot could not be left: it is free once its longest time is over", exc_info=True)

    def __del__(self) -> None:
        self._leave_quietly()

    def __bool__(self) -> bool:
        return not self._has_left and self._entered_after == _fork_generation()

    def __repr__(self) -> str:
        return f"<Slot of {self._decision.identifier!r}, {'held' if self else 'left'}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Slot belongs to the process that entered: it cannot be pickled or copied")

    # A type checker shall go on telling that it is not there.
    if not TYPE_CHECKING:
        __enter__ = NotHere("__enter__", "write with concurrency.slot('user:42') as slot:")
        # As of Python 3.14 this one is asked for first.
        __exit__ = NotHere("__exit__", "write with concurrency.slot('user:42') as slot:")


class _Entering:
    """What ``Concurrency.slot`` returns, for a ``with`` statement."""

    def __init__(self, concurrency: Concurrency, key: str | bytes) -> None:
        self._concurrency, self._key = concurrency, key
        self._entered: list[Slot | None] = []

    def __enter__(self) -> Slot | None:
        slot = self._concurrency.enter(self._key)
        self._entered.append(slot)
        return slot

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        slot = self._entered.pop()
        if slot is not None:
            slot._leave_quietly()


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
        self._log = SlidingLog(limit, longest)
        self._limiter = Limiter(self._log, name=name, store=store, clock=clock)

    def slot(self, key: str | bytes) -> _Entering:
        """Return what a ``with`` statement enters and leaves: ``with c.slot("user:42") as slot:``.

        ``slot`` is None when none was free: nothing waits, and the block runs all the same, so it asks
        ``if slot:``. Whoever wants one tries again later. Entering raises what ``enter`` does. If the store
        fails when the block ends, that is logged and raises nothing.
        """
        return _Entering(self, key)

    def enter(self, key: str | bytes) -> Slot | None:
        """Take a slot of the key, or return None when none is free.

        Keep it while the work lasts: ``if c.enter("user:42"):`` leaves at once, since nobody refers to it.
        Raises ValueError or TypeError for a wrong key, StoreError when the store cannot answer.
        """
        decision = self._limiter.hit(key)
        return Slot(self._limiter, decision) if decision else None

    def in_use(self, key: str | bytes) -> int:
        """Return how many of the key's slots are taken now. Raises as ``enter`` does."""
        return self._log.limit - self._limiter.peek(key, cost=0).remaining

    def __repr__(self) -> str:
        return f"Concurrency({self._log.limit}, longest={self._log.per}, name={self._limiter.name!r})"
