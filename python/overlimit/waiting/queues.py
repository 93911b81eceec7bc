"""The queues in which callers of ``Limiter.acquire`` wait: one for each identifier of a limiter's family."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING

from overlimit._core import _call_locked
from overlimit._forks import PerProcess
from overlimit.waiting.sleeping import WakeUp

if TYPE_CHECKING:
    from overlimit._core import Store
    from overlimit.limiter import Limiter


class Waiter:
    """One caller that waits in the queues of a limiter."""

    def __init__(self, keys: Iterable[bytes], deadline: float) -> None:
        self.keys = frozenset(keys)
        """The identifiers in whose queues it waits."""
        self.deadline = deadline
        """The last instant at which it may be admitted, in microseconds."""
        self.wake_up = WakeUp()
        """What wakes the caller, when it has become the first or waits in vain."""
        self.told = 0
        """When the store has told it to ask again; 0 while that is not known."""
        self.earliest = 0
        """The instant before which it cannot be admitted, by what it and those before it were told."""


class WaitQueue:
    """The callers that wait for one family of limiters, first come first served: a queue for each identifier.

    A family is a limiter and those that ``with_limits`` has made of it: they share their counts.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self._waiters: dict[Waiter, None] = {}
        self._by_key: dict[bytes, dict[Waiter, None]] = {}

    def __len__(self) -> int:
        return len(self._waiters)

    def append(self, waiter: Waiter) -> None:
        """Add one behind all that share an identifier with it."""
        self._waiters[waiter] = None
        for key in waiter.keys:
            self._by_key.setdefault(key, {})[waiter] = None
        if not self.is_first(waiter):
            self.update_earliest()

    def remove(self, waiter: Waiter) -> None:
        """Remove one, and wake those that become the first by that."""
        self._waiters.pop(waiter, None)
        for key in waiter.keys:
            queue = self._by_key.get(key, {})
            was_first = next(iter(queue), None) is waiter
            queue.pop(waiter, None)
            if not queue:
                self._by_key.pop(key, None)
            elif was_first:
                self._wake_first(key)

    def is_first(self, waiter: Waiter) -> bool:
        """Whether nobody who came earlier waits for one of its identifiers."""
        return all(next(iter(self._by_key.get(key, ())), waiter) is waiter for key in waiter.keys)

    def wake(self, keys: Iterable[bytes] | None) -> None:
        """Wake those that are the first for one of these keys, or for any key."""
        for key in list(self._by_key) if keys is None else keys:
            self._wake_first(key)

    def _wake_first(self, key: bytes) -> None:
        waiter = next(iter(self._by_key.get(key, ())), None)
        if waiter is not None and self.is_first(waiter):
            waiter.told = 0
            waiter.wake_up.notify()

    def update_earliest(self) -> None:
        """Work out the earliest admission of each, and wake those for which that is too late."""
        ahead: dict[bytes, int] = {}
        for waiter in self._waiters:
            waiter.earliest = max([waiter.told, *(ahead.get(key, 0) for key in waiter.keys)])
            ahead.update(dict.fromkeys(waiter.keys, waiter.earliest))
            if waiter.earliest > waiter.deadline:
                waiter.wake_up.notify()


class _WaitQueues:
    """The queues of the families that somebody waits for; guarded by the lock.

    The lock is one that a signal handler or a finalizer may take again in the thread that holds it.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.by_family: dict[object, WaitQueue] = {}

    def join(self, limiter: Limiter, waiter: Waiter) -> None:
        _call_locked(self.lock, self._join, limiter, waiter)

    def leave(self, limiter: Limiter, waiter: Waiter) -> None:
        _call_locked(self.lock, self._leave, limiter, waiter)

    def is_first(self, limiter: Limiter, waiter: Waiter) -> bool:
        return _call_locked(self.lock, self._is_first, limiter, waiter)

    def postpone(self, limiter: Limiter, waiter: Waiter, until: int) -> None:
        """Note what the first one was told, unless something has happened since."""
        _call_locked(self.lock, self._postpone, limiter, waiter, until)

    def wake(self, store: Store, keys: Iterable[bytes] | None) -> None:
        """Wake those that are the first for one of these keys, or for any key, on one store."""
        _call_locked(self.lock, self._wake, store, keys)

    def wake_all(self) -> None:
        """Wake those that are the first for any key, on any store."""
        _call_locked(self.lock, self._wake, None, None)

    def _join(self, limiter: Limiter, waiter: Waiter) -> None:
        self.by_family.setdefault(limiter._family, WaitQueue(limiter.store)).append(waiter)

    def _leave(self, limiter: Limiter, waiter: Waiter) -> None:
        queue = self.by_family.get(limiter._family, WaitQueue(limiter.store))
        queue.remove(waiter)
        if not queue:
            self.by_family.pop(limiter._family, None)

    def _is_first(self, limiter: Limiter, waiter: Waiter) -> bool:
        queue = self.by_family.get(limiter._family)
        return queue is None or queue.is_first(waiter)

    def _postpone(self, limiter: Limiter, waiter: Waiter, until: int) -> None:
        if not waiter.wake_up.is_notified and limiter._family in self.by_family:
            waiter.told = until
            self.by_family[limiter._family].update_earliest()

    def _wake(self, store: Store | None, keys: Iterable[bytes] | None) -> None:
        for queue in list(self.by_family.values()):
            if store is None or queue.store is store:
                queue.wake(keys)


wait_queues = PerProcess(_WaitQueues)
"""In a forked child nobody waits: those that did are threads of its parent."""
