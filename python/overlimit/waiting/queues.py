"""The queues in which callers of ``acquire`` and ``acquire_all`` wait.

There is one for each identifier of a family of limiters: those of one name on one store and by one clock, and
those that ``with_limits`` has made of them, which share their counts. A caller joins all of its queues at
once, so whoever came first of all is the first in each of its own, in whatever order callers name them.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from overlimit._core import _call_locked
from overlimit._forks import PerProcess
from overlimit.stores.state_keys import state_key
from overlimit.waiting.sleeping import AnyWakeUp

if TYPE_CHECKING:
    from overlimit._core import Store
    from overlimit.limiter import Limiter

_K = TypeVar("_K")

Place: TypeAlias = "tuple[object, bytes]"
"""Which queue: a family of limiters, and an identifier."""


class Waiter:
    """One caller that waits in several queues."""

    def __init__(
        self, subjects: Iterable[tuple[Limiter, bytes]], deadline: float, wake_up: AnyWakeUp
    ) -> None:
        subjects = list(subjects)
        self.stores = {limiter._family: limiter.store for limiter, _ in subjects}
        """The families that it waits for, and where each of them counts."""
        self.places = frozenset((limiter._family, key) for limiter, key in subjects)
        """The queues in which it waits."""
        self.deadline = deadline
        """The last instant at which it may be admitted, in microseconds."""
        self.wake_up = wake_up
        """What wakes the caller, when it has become the first or waits in vain."""
        self.number = 0
        """How many came before it."""
        self.told = 0
        """When the store has told it to ask again; 0 while that is not known."""
        self.earliest = 0
        """The instant before which it cannot be admitted, by what it and those before it were told."""


class _WaitQueues:
    """All queues in which somebody waits; guarded by the lock.

    The lock is one that a signal handler or a finalizer may take again in the thread that holds it.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.by_family: dict[object, dict[Waiter, None]] = {}
        self._queues: dict[Place, dict[Waiter, None]] = {}
        self._numbers = itertools.count()

    def join(self, waiter: Waiter) -> None:
        """Add one behind all that share a queue with it."""
        _call_locked(self.lock, self._join, waiter)

    def leave(self, waiter: Waiter) -> None:
        """Remove one, and wake those that become the first by that."""
        _call_locked(self.lock, self._leave, waiter)

    def is_first(self, waiter: Waiter) -> bool:
        """Whether nobody who came earlier waits in one of its queues."""
        return _call_locked(self.lock, self._is_first, waiter)

    def postpone(self, waiter: Waiter, until: int) -> None:
        """Note what the first one was told, unless something has happened since."""
        _call_locked(self.lock, self._postpone, waiter, until)

    def wake(self, store: Store, keys: Iterable[bytes] | None) -> None:
        """Wake those that are the first for one of these keys, or for any key, on one store."""
        _call_locked(self.lock, self._wake, store, keys)

    def wake_all(self) -> None:
        """Wake those that are the first for any key, on any store."""
        _call_locked(self.lock, self._wake, None, None)

    def wake_behind(self, waiter: Waiter) -> None:
        """Wake those that are the first in the queues of one that has left."""
        _call_locked(self.lock, self._wake_first, waiter.places)

    def _join(self, waiter: Waiter) -> None:
        waiter.number = next(self._numbers)
        for family in waiter.stores:
            self.by_family.setdefault(family, {})[waiter] = None
        for place in waiter.places:
            queue = self._queues.setdefault(place, {})
            if queue:
                waiter.earliest = max(waiter.earliest, next(reversed(queue)).earliest)
            queue[waiter] = None

    def _leave(self, waiter: Waiter) -> None:
        """Remove one that may have been removed before."""
        for family in waiter.stores:
            _remove(waiter, self.by_family, family)
        self._wake_first([place for place in waiter.places if _remove(waiter, self._queues, place)])

    def _is_first(self, waiter: Waiter) -> bool:
        return all(self._first_of(place) in (waiter, None) for place in waiter.places)

    def _first_of(self, place: Place) -> Waiter | None:
        """Return the first of a queue; who waited on an event loop that is closed by now leaves it."""
        while True:
            first = next(iter(self._queues.get(place, ())), None)
            if first is None or not first.wake_up.is_gone:
                return first
            self._leave(first)

    def _postpone(self, waiter: Waiter, until: int) -> None:
        if not waiter.wake_up.is_notified and not waiter.stores.keys().isdisjoint(self.by_family):
            waiter.told = until
            self._update_earliest(waiter)

    def _wake(self, store: Store | None, keys: Iterable[bytes] | None) -> None:
        if keys is None:
            self._wake_first([place for place in list(self._queues) if self._is_on(store, place[0])])
            return
        families = [family for family in list(self.by_family) if self._is_on(store, family)]
        for key in keys:
            self._wake_first((family, key) for family in families)

    def _is_on(self, store: Store | None, family: object) -> bool:
        waiter = next(iter(self.by_family.get(family, ())), None)
        return store is None or (waiter is not None and state_key(waiter.stores[family]) == state_key(store))

    def _wake_first(self, places: Iterable[Place]) -> None:
        for place in places:
            waiter = self._first_of(place)
            if waiter is not None and self._is_first(waiter):
                waiter.told = 0
                waiter.wake_up.notify()

    def _update_earliest(self, changed: Waiter) -> None:
        """Work out anew the earliest admission of those it may matter to; wake who waits in vain by that."""
        ahead: dict[Place, int] = {}
        for waiter in sorted(self._connected(changed), key=lambda each: each.number):
            waiter.earliest = max([waiter.told, *(ahead.get(place, 0) for place in waiter.places)])
            ahead.update(dict.fromkeys(waiter.places, waiter.earliest))
            if waiter.earliest > waiter.deadline:
                waiter.wake_up.notify()

    def _connected(self, waiter: Waiter) -> set[Waiter]:
        """Return all that share a queue with one, or with one that does, and so on."""
        found, seen, left = {waiter}, set(waiter.places), list(waiter.places)
        while left:
            behind = self._queues.get(left.pop(), {}).keys() - found
            found |= behind
            new = {place for each in behind for place in each.places} - seen
            seen |= new
            left.extend(new)
        return found


def _remove(waiter: Waiter, queues: dict[_K, dict[Waiter, None]], key: _K) -> bool:
    """Remove one from a queue, and the queue if it is empty then; say whether it was the first of others."""
    queue = queues.get(key, {})
    was_first = next(iter(queue), None) is waiter
    queue.pop(waiter, None)
    if not queue:
        queues.pop(key, None)
    return bool(queue) and was_first


wait_queues = PerProcess(_WaitQueues)
"""In a forked child nobody waits: those that did are threads of its parent."""
