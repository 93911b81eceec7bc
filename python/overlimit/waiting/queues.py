"""The queues in which callers of ``acquire`` and ``acquire_all`` wait.

There is one for each identifier of a family of limiters: those of one name on one store and by one clock, and
those that ``with_limits`` has made of them, which share their counts. A caller joins all of its queues at
once, so whoever came first of all is the first in each of its own, in whatever order callers name them.
"""

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Callable, Iterable, Iterator
from heapq import heapify, heappop, heappush
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

_MOST_GONE = 32
"""How many more than those that wait may be left in a heap of deadlines."""


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
        """When the store has told it to ask again; 0 while that is not known, or it is not the first."""
        self.has_left = False


class _Deadlines:
    """A heap of those that have a deadline; those that left stay in it until they are looked at."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Waiter]] = []

    def add(self, waiter: Waiter) -> None:
        """Add one."""
        if waiter.deadline < math.inf:
            heappush(self._heap, (waiter.deadline, waiter.number, waiter))

    def forget(self, number: int) -> None:
        """Forget those that have left, if they are many beside the number of those that have not."""
        if len(self._heap) > 2 * number + _MOST_GONE:
            kept = [each for each in self._heap if not each[2].has_left]
            heapify(kept)
            self._heap = kept

    def soonest(self) -> float:
        """Return the first deadline of those that have not left."""
        while self._heap and self._heap[0][2].has_left:
            heappop(self._heap)
        return self._heap[0][0] if self._heap else math.inf

    def before(self, instant: float) -> list[Waiter]:
        """Return those whose deadline is before an instant; some may have left."""
        found, left = [], [0]
        while left:
            index = left.pop()
            if index < len(self._heap) and self._heap[index][0] < instant:
                found.append(self._heap[index][2])
                left += (2 * index + 1, 2 * index + 2)
        return found


class _Queue:
    """Those that wait in one place, in the order in which they came.

    What the first one was told holds for all behind it, also in other queues: behind each that waits here
    and there. So queues keep these *links*; and deadlines in a heap, to find those that wait in vain.
    """

    def __init__(self) -> None:
        self.waiters: dict[Waiter, None] = {}
        self.onward: dict[Place, dict[Waiter, None]] = {}
        """By another place: those with somebody before them here, and somebody behind them there."""
        self.back: dict[Place, dict[Waiter, None]] = {}
        """By another place: those with somebody before them there, and somebody behind them here."""
        self._deadlines = _Deadlines()

    @property
    def first(self) -> Waiter | None:
        """The one that came first."""
        return next(iter(self.waiters), None)

    @property
    def last(self) -> Waiter | None:
        """The one that came last."""
        return next(reversed(self.waiters), None)

    def add(self, waiter: Waiter) -> None:
        """Add one behind all others."""
        self.waiters[waiter] = None
        self._deadlines.add(waiter)

    def remove(self, waiter: Waiter) -> bool:
        """Remove one that may have been removed before; say whether it was the first of others."""
        was_first = self.first is waiter
        self.waiters.pop(waiter, None)
        for links in (self.onward, self.back):
            for place in links.keys() & waiter.places:
                _remove(waiter, links, place)
        self._deadlines.forget(len(self.waiters))
        return was_first and bool(self.waiters)

    def in_vain(self, number: int, earliest: float) -> list[Waiter]:
        """Return those from a number on whose deadline is before an instant; some may have left."""
        return [each for each in self._deadlines.before(earliest) if each.number >= number]

    def links_onward(self, number: int) -> Iterator[tuple[Place, int]]:
        """Yield each place that holds some of those behind a number, and behind which number there."""
        for place, waiters in self.onward.items():
            link = next((each for each in waiters if each.number >= number), None)
            if link is not None:
                yield place, link.number

    def links_back(self, number: int) -> Iterator[tuple[Place, int]]:
        """Yield each place that holds some of those before a number, and before which number there."""
        for place, waiters in self.back.items():
            link = next((each for each in reversed(waiters) if each.number < number), None)
            if link is not None:
                yield place, link.number


class _WaitQueues:
    """All queues in which somebody waits; guarded by the lock.

    The lock is one that a signal handler or a finalizer may take again in the thread that holds it.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.wakes = 0
        """How often something has happened that those who wait were to be told."""
        self.by_family: dict[object, dict[Waiter, None]] = {}
        self._queues: dict[Place, _Queue] = {}
        self._deadlines = _Deadlines()
        self._latest = 0
        """The latest instant that one was told since somebody waits, mostly before all deadlines."""
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
        """Note what the first one was told, unless something has happened since; wake who waits in vain."""
        _call_locked(self.lock, self._postpone, waiter, until)

    def earliest(self, waiter: Waiter) -> int:
        """Return the instant before which one cannot be admitted, by what it and those before were told.

        It is 0 where that is before its deadline anyway, and need not be worked out.
        """
        return _call_locked(self.lock, self._earliest, waiter)

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
        self._deadlines.add(waiter)
        for family in waiter.stores:
            self.by_family.setdefault(family, {})[waiter] = None
        for place in waiter.places:
            queue = self._queues.setdefault(place, _Queue())
            if queue.last is not None:
                self._link(queue.last, place)
            queue.add(waiter)

    def _link(self, waiter: Waiter, place: Place) -> None:
        """Have all that one waits for in other places hold for those behind it in this one."""
        for other in waiter.places - {place}:
            if other in self._queues and self._queues[other].first is not waiter:
                self._queues[other].onward.setdefault(place, {})[waiter] = None
                self._queues[place].back.setdefault(other, {})[waiter] = None

    def _leave(self, waiter: Waiter) -> None:
        """Remove one that may have been removed before."""
        waiter.has_left = True
        for family in waiter.stores:
            _remove(waiter, self.by_family, family)
        self._wake_first([place for place in waiter.places if self._leave_queue(waiter, place)])
        self._deadlines.forget(sum(map(len, self.by_family.values())))
        if not self._queues:
            self._latest = 0

    def _leave_queue(self, waiter: Waiter, place: Place) -> bool:
        """Remove one from a queue, and a queue that is empty then; say whether it was the first of others."""
        queue = self._queues.get(place)
        if queue is None:
            return False
        was_first = queue.remove(waiter)
        if not queue.waiters:
            del self._queues[place]
        return was_first

    def _is_first(self, waiter: Waiter) -> bool:
        return all(self._first_of(place) in (waiter, None) for place in waiter.places)

    def _first_of(self, place: Place) -> Waiter | None:
        """Return the first of a queue; whoever waited on an event loop that is closed by now leaves it."""
        while True:
            queue = self._queues.get(place)
            first = None if queue is None else queue.first
            if first is None or not first.wake_up.is_gone:
                return first
            self._leave(first)

    def _postpone(self, waiter: Waiter, until: int) -> None:
        if not waiter.wake_up.is_notified and not waiter.stores.keys().isdisjoint(self.by_family):
            waiter.told = until
            self._latest = max(self._latest, until)
            if self._deadlines.soonest() >= until:
                return
            for queue, number in self._walk(waiter, _Queue.links_onward, min):
                for each in queue.in_vain(number, until):
                    each.wake_up.notify()

    def _earliest(self, waiter: Waiter) -> int:
        if self._latest <= waiter.deadline:
            return 0
        firsts = [queue.first for queue, _ in self._walk(waiter, _Queue.links_back, max)]
        return max(waiter.told, *(each.told for each in firsts if each is not None))

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

    def _walk(
        self,
        waiter: Waiter,
        links: Callable[[_Queue, int], Iterator[tuple[Place, int]]],
        farther: Callable[[int, int], int],
    ) -> Iterator[tuple[_Queue, int]]:
        """Yield the queues of one, and those that links lead to; with each from which number on it counts."""
        reached: dict[Place, int] = {}
        left = [(place, waiter.number) for place in waiter.places]
        while left:
            place, number = left.pop()
            queue = self._queues.get(place)
            known = reached.get(place)
            if queue is None or (known is not None and farther(known, number) == known):
                continue
            reached[place] = number
            yield queue, number
            left += links(queue, number)


def _remove(waiter: Waiter, groups: dict[_K, dict[Waiter, None]], key: _K) -> None:
    """Remove one from a group, and the group if it is empty then."""
    group = groups.get(key, {})
    group.pop(waiter, None)
    if not group:
        groups.pop(key, None)


wait_queues = PerProcess(_WaitQueues)
"""In a forked child nobody waits: those that did are threads of its parent."""
