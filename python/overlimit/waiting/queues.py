"""The queues in which callers of ``acquire`` and ``acquire_all`` wait.

There is one for each pair of an identifier and a limit that holds somebody up, of a family of limiters: those
of one name on one store and by one clock, and those that ``with_limits`` has made of them, which share their
counts. A caller needs many pairs and stands in few of these queues: where it would pass last of all. So it
holds up nobody who has to wait for none of these.

Each queue has those of a higher priority before those of a lower one, and otherwise the order in which they
came. Once one has been passed for too long by those that came later, these go after it, and after all that
came before it.
"""

from __future__ import annotations

import itertools
import math
import threading
from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from overlimit._core import Limiter, _call_locked
from overlimit._forks import PerProcess
from overlimit.stores.kinds import state_key
from overlimit.waiting.sleeping import AnyWakeUp

if TYPE_CHECKING:
    from overlimit._core import Store

Subject: TypeAlias = "tuple[object, bytes]"
"""A family of limiters, and an identifier."""


class QueuedLimiter(Limiter):
    """A limiter for which callers may wait."""

    _family: object
    """What those share that share its counts."""


class Pair(NamedTuple):
    """One limit of one identifier."""

    subject: Subject
    tag: int
    number: int
    """How many limits before it have the same tag."""


_MOST_GONE = 32
"""How many more than those that wait may be left in a heap of instants."""

_KEEPS = 2
"""While it waits for others, a caller keeps its place for a pair so many times as long as it waited there."""


class Urgency(NamedTuple):
    """Which of those that wait go first."""

    priority: int = 0
    """Those of a higher one, whenever they came."""
    patience: int | None = None
    """For how many microseconds those that came later may pass it; None: by what it is told."""


USUAL = Urgency()

_PATIENCE, _LEAST_PATIENCE = 10, 1_000_000
"""So many times the wait that one is told at first, those that come later may pass it; at least so long."""


class Wait(NamedTuple):
    """What a caller was told of a pair that it had to wait for, in microseconds."""

    longest: int
    """The longest wait."""
    due: int
    """The instant at which the last one ends."""

    @property
    def keeps_until(self) -> int:
        """Until when it keeps its place, if it has to wait for another pair then."""
        return self.due + _KEEPS * self.longest


class Waiter:
    """One caller: what it needs, what it waits for, and how to wake it."""

    def __init__(
        self,
        subjects: Iterable[tuple[QueuedLimiter, bytes]],
        deadline: float,
        wake_up: AnyWakeUp,
        urgency: Urgency = USUAL,
    ) -> None:
        self._subjects = list(subjects)
        self.stores = {limiter._family: limiter.store for limiter, _ in self._subjects}
        """The families that it waits for, and where each of them counts."""
        self.deadline = deadline
        """The last instant at which it may be admitted, in microseconds."""
        self.wake_up = wake_up
        """What wakes the caller, when it has become the first or waits in vain."""
        self.number = 0
        """How many came before it."""
        self.priority = urgency.priority
        self.goes_with: float = math.inf
        """It goes before all that came after this number, as that one has been passed for too long."""
        self.patience = urgency.patience
        """For how long it may be passed; None until it is told to wait, if that says it."""
        self.passed_until: int | None = None
        """Until when those that came later may pass it, once one has."""
        self.stands_at: frozenset[Pair] = frozenset()
        """The pairs in whose queues it stands."""
        self.entered: set[Pair] = set()
        """Those whose queues it may be in, also when a signal handler has raised in the midst of a step."""
        self.waits: dict[Pair, Wait] = {}
        """What it was told of pairs that it had to wait for."""
        self.is_held_up = False
        """Whether it waits behind others."""
        self.told = 0
        """When the store has told it, or those that hold it up, to ask again; 0 while that is not known."""
        self.told_after = 0
        """How often the queues had been woken when it asked what it was told."""
        self.pairs: tuple[Pair, ...] = ()
        """All that it needs, in the order of the details of a decision, by the limits that were read last."""
        self._limits: list[object] = []

    @property
    def order(self) -> tuple[float, int, int]:
        """Where it stands among those that wait for the same."""
        return self.goes_with, -self.priority, self.number

    def read_limits(self) -> None:
        """Find out what it needs by the limits that there are now."""
        limits: list[object] = [limiter.limits for limiter, _ in self._subjects]
        if limits != self._limits:
            named = itertools.chain.from_iterable(_pairs_of(*each) for each in self._subjects)
            self._limits, self.pairs = limits, tuple(dict.fromkeys(named))


class _Queue:
    """Those that wait for one pair, in their order; their deadlines, and until when they may be passed."""

    def __init__(self, pair: Pair) -> None:
        self.waiters: list[Waiter] = []
        self.keepers: dict[Waiter, None] = {}
        """Those that are held up here and keep a place in other queues."""
        self._pair = pair
        self._deadlines: list[tuple[float, int, Waiter]] = []
        self._passed: list[tuple[float, int, Waiter]] = []

    def add(self, waiter: Waiter) -> None:
        """Add one behind those that go before it, and before those that go after it."""
        insort(self.waiters, waiter, key=_BY_ORDER)
        if waiter.deadline < math.inf:
            heappush(self._deadlines, (waiter.deadline, waiter.number, waiter))
        if waiter.passed_until is not None:
            heappush(self._passed, (waiter.passed_until, waiter.number, waiter))

    def pass_by(self, waiter: Waiter, now: int) -> None:
        """Note that one asks before those here that came earlier and go after it."""
        for each in self.waiters[bisect_right(self.waiters, waiter.order, key=_BY_ORDER) :]:
            if each.number < waiter.number and each.passed_until is None and each.patience is not None:
                each.passed_until = now + each.patience
                heappush(self._passed, (each.passed_until, each.number, each))

    def out_of_patience(self, now: int) -> Iterator[Waiter]:
        """Yield those, once, that may be passed no more."""
        while self._passed and self._passed[0][0] <= now:
            waiter = heappop(self._passed)[2]
            if waiter.goes_with > waiter.number and self._has(waiter):
                yield waiter

    def remove(self, waiter: Waiter) -> None:
        """Remove one that may have been removed before."""
        place = bisect_left(self.waiters, waiter.order, key=_BY_ORDER)
        if self.waiters[place : place + 1] == [waiter]:
            del self.waiters[place]
        self.keepers.pop(waiter, None)
        for heap in (self._deadlines, self._passed):
            if len(heap) > 2 * len(self.waiters) + _MOST_GONE:
                heap[:] = [each for each in heap if self._has(each[2])]
                heapify(heap)

    def in_vain(self, earliest: int) -> list[Waiter]:
        """Return those whose deadline is before an instant."""
        heap = self._deadlines
        while heap and not self._has(heap[0][2]):
            heappop(heap)
        found, left = [], [0]
        while left:
            index = left.pop()
            if index < len(heap) and heap[index][0] < earliest:
                found.append(heap[index][2])
                left += (2 * index + 1, 2 * index + 2)
        return [each for each in found if self._has(each)]

    def _has(self, waiter: Waiter) -> bool:
        return self._pair in waiter.stands_at


class _WaitQueues:
    """All queues in which somebody waits; guarded by the lock.

    The lock is one that a signal handler or a finalizer may take again in the thread that holds it.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.wakes = 0
        """How often something has happened that those who wait were to be told."""
        self.by_family: dict[object, dict[Waiter, None]] = {}
        self._queues: dict[Subject, dict[Pair, _Queue]] = {}
        self._numbers = itertools.count(1)

    def join(self, waiter: Waiter) -> None:
        """Note that one has come after all others; it stands in no queue yet."""
        _call_locked(self.lock, self._join, waiter)

    def leave(self, waiter: Waiter) -> None:
        """Remove one, and wake those that become the first by that."""
        _call_locked(self.lock, self._leave, waiter)

    def is_held_up(self, waiter: Waiter, now: int) -> bool:
        """Whether somebody who goes before one waits for a pair that it needs; it then stands behind that."""
        return _call_locked(self.lock, self._is_held_up, waiter, now)

    def wait_as_told(self, waiter: Waiter, places: Iterable[int], now: int, until: int, wakes: int) -> None:
        """Have one stand where the store has refused it longest, until an instant; wake who waits in vain.

        ``places`` are those of the pairs in the details of the refusal (none: nobody knows which), and
        ``wakes`` is how often the queues had been woken before it asked: if they were again, it asks again.
        """
        _call_locked(self.lock, self._wait_as_told, waiter, places, now, until, wakes)

    def earliest(self, waiter: Waiter) -> tuple[int, int]:
        """Return the instant before which those who hold one up cannot be admitted, and for which pair.

        The instant is 0 where that is not known; the pair is told by its place in the details of a decision.
        """
        return _call_locked(self.lock, self._earliest, waiter)

    def wake(self, store: Store, keys: Iterable[bytes] | None) -> None:
        """Wake those that are the first for one of these keys, or all that wait, on one store."""
        _call_locked(self.lock, self._wake, store, keys)

    def wake_all(self) -> None:
        """Wake all that wait, on any store."""
        _call_locked(self.lock, self._wake, None, None)

    def wake_behind(self, waiter: Waiter) -> None:
        """Wake those that are the first in the queues of one that has left."""
        _call_locked(self.lock, self._wake_subjects, {pair.subject for pair in waiter.pairs})

    def _join(self, waiter: Waiter) -> None:
        waiter.number = next(self._numbers)
        for family in waiter.stores:
            self.by_family.setdefault(family, {})[waiter] = None

    def _leave(self, waiter: Waiter) -> None:
        """Remove one that may have been removed before, or in part."""
        self._stand(waiter, frozenset())
        for family in waiter.stores:
            others = self.by_family.get(family, {})
            others.pop(waiter, None)
            if not others:
                self.by_family.pop(family, None)

    def _is_held_up(self, waiter: Waiter, now: int) -> bool:
        waiter.read_limits()
        for queue in self._queues_of(waiter.pairs):
            for each in queue.out_of_patience(now):
                self._go_on_with(each)
        held = self._holding(waiter)
        waiter.is_held_up = bool(held)
        if held:
            pairs = {waiter.pairs[place] for _, place in held}
            self._wait(waiter, pairs, now, max(held)[0])
            if waiter.stands_at > pairs:
                for queue in self._queues_of(pairs):
                    queue.keepers[waiter] = None
        else:
            for queue in self._queues_of(waiter.pairs):
                queue.pass_by(waiter, now)
        return waiter.is_held_up

    def _queues_of(self, pairs: Iterable[Pair]) -> Iterator[_Queue]:
        """Yield the queues of those pairs for which somebody waits."""
        for pair in pairs:
            queue = self._queues.get(pair.subject, {}).get(pair)
            if queue is not None:
                yield queue

    def _go_on_with(self, waiter: Waiter) -> None:
        """Have one that has been passed for too long, and all before it, go before those that came later."""
        number, queues = waiter.number, list(self._queues_of(waiter.entered))
        for queue in queues:
            for each in list(queue.waiters):
                if each.number <= number < each.goes_with:
                    self._reorder(each, number)
        for queue in queues:
            first = queue.waiters[0]
            if first.is_held_up:
                first.told = 0
                first.wake_up.notify()

    def _reorder(self, waiter: Waiter, goes_with: int) -> None:
        queues = list(self._queues_of(waiter.entered))
        keeps = [queue for queue in queues if waiter in queue.keepers]
        for queue in queues:
            queue.remove(waiter)
        waiter.goes_with = goes_with
        for queue in queues:
            queue.add(waiter)
        for queue in keeps:
            queue.keepers[waiter] = None

    def _earliest(self, waiter: Waiter) -> tuple[int, int]:
        return max(self._holding(waiter), default=(0, 0))

    def _holding(self, waiter: Waiter) -> list[tuple[int, int]]:
        """Return what those that hold one up were told, and the place of the pair for which they wait."""
        firsts = ((self._first(pair), place) for place, pair in enumerate(waiter.pairs))
        return [
            (first.told, place)
            for first, place in firsts
            if first and first.order < waiter.order and first.wake_up is not waiter.wake_up
        ]

    def _wait_as_told(self, waiter: Waiter, places: Iterable[int], now: int, until: int, wakes: int) -> None:
        pairs, wait = waiter.pairs, until - now
        binding = {pairs[place] for place in places if place < len(pairs)} or set(pairs)
        asks_again = self.wakes != wakes and not binding <= waiter.stands_at
        for pair in () if asks_again else binding:
            known = waiter.waits.get(pair)
            waiter.waits[pair] = Wait(max(wait, known.longest) if known else wait, until)
        waiter.told_after = wakes
        self._wait(waiter, binding, now, until)
        if asks_again or waiter.wake_up.is_notified:
            waiter.told = 0
            waiter.wake_up.notify()

    def _wait(self, waiter: Waiter, pairs: set[Pair], now: int, until: int) -> None:
        """Have one wait for pairs until an instant, and keep its place for others if that is not too long."""
        known = ((each, waiter.waits.get(each)) for each in waiter.pairs)
        kept = (each for each, wait in known if wait and max(now, until) <= wait.keeps_until)
        if waiter.patience is None:
            waiter.patience = max(_PATIENCE * (until - now), _LEAST_PATIENCE)
        self._stand(waiter, frozenset(pairs.union(kept)))
        waiter.told = until
        for pair in waiter.stands_at:
            if self._first(pair) is waiter:
                self._tell(self._queues[pair.subject][pair], waiter)

    def _tell(self, queue: _Queue, first: Waiter) -> None:
        """Wake those who now wait in vain behind the first, or may have to give up a place elsewhere."""
        for each in [*queue.in_vain(first.told), *queue.keepers]:
            if each is not first:
                each.wake_up.notify()

    def _stand(self, waiter: Waiter, pairs: frozenset[Pair]) -> None:
        """Have one stand in these queues and no others; wake those that become the first by that."""
        waiter.stands_at = pairs
        for pair in pairs - waiter.entered:
            waiter.entered.add(pair)
            self._queues.setdefault(pair.subject, {}).setdefault(pair, _Queue(pair)).add(waiter)
        for pair in waiter.entered - pairs:
            self._leave_queue(waiter, pair)
            waiter.entered.discard(pair)

    def _leave_queue(self, waiter: Waiter, pair: Pair) -> None:
        """Remove one from a queue; wake who is the first then, unless what that one was told still holds."""
        queues = self._queues.get(pair.subject, {})
        queue = queues.get(pair)
        if queue is None:
            return
        was_first = queue.waiters[:1] == [waiter]
        queue.remove(waiter)
        if not queue.waiters:
            queues.pop(pair, None)
        if not queues:
            self._queues.pop(pair.subject, None)
        first = self._first(pair)
        if was_first and first is not None and (first.is_held_up or first.told_after != self.wakes):
            first.told = 0
            first.wake_up.notify()

    def _first(self, pair: Pair) -> Waiter | None:
        """Return the first of a queue; whoever waited on an event loop that is closed by now leaves it."""
        while True:
            queue = self._queues.get(pair.subject, {}).get(pair)
            first = queue.waiters[0] if queue is not None and queue.waiters else None
            if first is None or not first.wake_up.is_gone:
                return first
            self._leave(first)

    def _wake(self, store: Store | None, keys: Iterable[bytes] | None) -> None:
        families = [family for family in list(self.by_family) if self._is_on(store, family)]
        if keys is not None:
            self._wake_subjects((family, key) for key in keys for family in families)
            return
        for family in families:
            for waiter in list(self.by_family.get(family, ())):
                waiter.told = 0
                waiter.wake_up.notify()

    def _is_on(self, store: Store | None, family: object) -> bool:
        waiter = next(iter(self.by_family.get(family, ())), None)
        return store is None or (waiter is not None and state_key(waiter.stores[family]) == state_key(store))

    def _wake_subjects(self, subjects: Iterable[Subject]) -> None:
        for subject in subjects:
            for pair in list(self._queues.get(subject, ())):
                first = self._first(pair)
                if first is not None:
                    first.told = 0
                    first.wake_up.notify()


_BY_ORDER = attrgetter("order")


def _pairs_of(limiter: QueuedLimiter, key: bytes) -> Iterator[Pair]:
    """Yield the pairs of an identifier, in the order of the limits, which share a count where these do."""
    seen: Counter[int] = Counter()
    for limit in limiter.limits:
        yield Pair((limiter._family, key), limit.tag, seen[limit.tag])
        seen[limit.tag] += 1


wait_queues = PerProcess(_WaitQueues)
"""In a forked child nobody waits: those that did are threads of its parent."""
